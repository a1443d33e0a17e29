//! Throughput and latency through the wall. Run manually:
//! `cargo test --release -p stockade-native --test egress -- --ignored --nocapture speed`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::gateway::{COUNTS, SENDS};
use crate::support::{PRELUDE, egress_can_be_built, run};

const BYTES: u64 = 4 << 30;

fn download(address: &str, port: u16) -> String {
    format!(
        "\
import time
connection = dial('{address}', {port})
room = bytearray(1 << 20)
begun = time.time()
connection.sendall(({BYTES}).to_bytes(8, 'big'))
total = 0
while read := connection.recv_into(room):
    total += read
print(total // (time.time() - begun) // 1_000_000)
"
    )
}

fn upload(address: &str, port: u16) -> String {
    format!(
        "\
import time
connection = dial('{address}', {port})
piece = bytes(1 << 20)
begun = time.time()
for _ in range({BYTES} >> 20):
    connection.sendall(piece)
connection.shutdown(socket.SHUT_WR)
everything(connection)
print({BYTES} // (time.time() - begun) // 1_000_000)
"
    )
}

fn requests(address: &str, port: u16) -> String {
    format!(
        "\
import time
connection = dial('{address}', {port})
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(5000):
    begun = time.perf_counter()
    connection.sendall(b'x' * 100)
    exactly(connection, 100)
    times.append(time.perf_counter() - begun)
print(sorted(times)[2500] * 1e6 // 1)
"
    )
}

/// The same program without a wall, with a server on this machine.
fn direct(serve: fn(std::net::TcpStream), script: impl Fn(&str, u16) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let script = format!("{PRELUDE}{}", script("127.0.0.1", port));
    let output = Command::new("/usr/bin/python3").args(["-c", &script]).output().unwrap();
    server.join().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn sends(mut stream: std::net::TcpStream) {
    let mut asked = [0; 8];
    stream.read_exact(&mut asked).unwrap();
    let piece = vec![b's'; 64 << 10];
    for _ in 0..u64::from_be_bytes(asked) / piece.len() as u64 {
        stream.write_all(&piece).unwrap();
    }
}

fn counts(mut stream: std::net::TcpStream) {
    let mut room = vec![0; 64 << 10];
    while stream.read(&mut room).unwrap() > 0 {}
}

fn echoes(mut stream: std::net::TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut room = vec![0; 64 << 10];
    while let Ok(read @ 1..) = stream.read(&mut room) {
        stream.write_all(&room[..read]).unwrap();
    }
}

#[test]
#[ignore = "a measurement, not a check"]
#[expect(clippy::print_stdout, reason = "the measurement is what it is run for")]
fn speed_of_a_connection_through_the_wall_and_without() {
    if !egress_can_be_built() {
        return;
    }
    for _ in 0..3 {
        let inside = |script: String| run(&script).0.trim().to_owned();
        println!(
            "down: {} MB/s through the wall, {} MB/s direct",
            inside(download("127.64.0.1", SENDS)),
            direct(sends, download).trim()
        );
        println!(
            "up: {} MB/s through the wall, {} MB/s direct",
            inside(upload("127.64.0.1", COUNTS)),
            direct(counts, upload).trim()
        );
        println!(
            "there and back: {} us through the wall, {} us direct",
            inside(requests("127.64.0.1", 443)),
            direct(echoes, requests).trim()
        );
    }
}
