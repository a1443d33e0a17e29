//! Malicious programs, and unusual ones.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::server::Server;
use crate::world::{World, here, opens, short_times, within};

const NAMES: [&str; 1] = ["a.example.org"];

#[tokio::test]
async fn slow_heads_are_given_up_on() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::with_times(&opens(port, &NAMES, ""), here(&NAMES), short_times());
    for start in ["GET / HTT", "\u{5}", "\u{16}\u{3}"] {
        let mut program = world.proxy();
        program.send(start).await;
        let answer = String::from_utf8(program.rest().await).unwrap();
        match start {
            "GET / HTT" => assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}"),
            _ => assert!(!answer.contains(" 200 "), "{answer}"),
        }
    }
    let mut program = world.dial("a.example.org", port).await;
    program.send("GET / HTTP/1.1\r\nHost: a.ex").await;
    assert!(program.rest().await.starts_with(b"HTTP/1.1 408 "));
    assert_eq!(server.seen().connections, 0);
}

#[tokio::test]
async fn head_that_comes_byte_by_byte_is_read_within_its_time() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &NAMES, ""), here(&NAMES));
    let mut program = world.dial("a.example.org", port).await;
    for byte in format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n").bytes() {
        program.send([byte]).await;
    }
    assert_eq!(program.answer().await.status, 200);
}

#[tokio::test]
async fn garbage_on_the_proxy_is_refused() {
    let world = World::with_times("{}", here(&[]), short_times());
    for garbage in [&b"\0\0\0\0"[..], b"\x16\x03\x01\x00\x05hello", b"\xff\xfe", b"hello\r\n\r\n"] {
        let mut program = world.proxy();
        program.send(garbage).await;
        let answer = program.rest().await;
        assert!(
            answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(b"HTTP/1.1 5"),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn thousands_of_connections_cost_little_and_block_no_other() {
    let server = Server::hello().await;
    let port = server.port;
    let text = opens(port, &NAMES, "limits: {max_connections: 64}\n");
    let hostile = World::with_times(&text, here(&NAMES), short_times());
    let other = World::new(&text, here(&NAMES));
    let mut held = Vec::new();
    for _ in 0..10_000 {
        let mut program = hostile.proxy();
        program.send(b"GET http://a.ex").await;
        held.push(program);
    }
    let mut program = other.dial("a.example.org", port).await;
    let begin = std::time::Instant::now();
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    assert_eq!(program.answer().await.status, 200);
    assert!(begin.elapsed() < Duration::from_secs(10));
    for mut program in held {
        program.rest().await;
    }
    assert_eq!(server.seen().connections, 1);
    assert!(hostile.gate.observed().denials.len() <= 256);
}

#[tokio::test]
async fn half_closed_connections_still_carry_the_other_half() {
    let server = Server::echo("").await;
    let port = server.port;
    let text = format!(
        "network_allowlist: [{{host: a.example.org, ports: [{port}], protocol: tcp}}, \
         {{host: 127.0.0.1, ports: [{port}], protocol: tcp}}]"
    );
    let world = World::new(&text, here(&NAMES));
    let mut program = world.dial("a.example.org", port).await;
    program.send(b"last words").await;
    program.stream.shutdown().await.unwrap();
    assert_eq!(program.rest().await, b"last wordsbye");
    let event = world.event().await;
    assert_eq!((event.sent_bytes, event.received_bytes, event.failure), (10, 13, None));
}

#[tokio::test]
async fn hosts_in_events_are_harmless_and_short() {
    let world = World::new("{}", here(&[]));
    let nasty = format!("evil\u{1b}[2J{}", "x".repeat(64_000));
    let mut program = world.proxy();
    program.try_send(format!("GET http://{nasty}/ HTTP/1.1\r\nHost: {nasty}\r\n\r\n")).await;
    program.rest().await;
    let mut socks = world.proxy();
    socks.send([5, 1, 0]).await;
    socks.exactly(2).await;
    socks.send(b"\x05\x01\x00\x03\x06a\n\x1bb.c\x00\x50").await;
    socks.rest().await;
    for event in world.events(2).await {
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.len() < 2048, "{text}");
        assert!(!text.contains("\\u001b") && !text.contains("\\n"), "{text}");
    }
}

#[tokio::test]
async fn endless_response_is_forwarded_without_buffering() {
    let server = Server::start(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).await.is_ok() {}
    })
    .await;
    let port = server.port;
    let text = opens(port, &NAMES, "limits: {max_egress_bytes: 50000000}\n");
    let world = World::new(&text, here(&NAMES));
    let mut program = world.dial("a.example.org", port).await;
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    let received = program.rest().await.len();
    assert!((40_000_000..=50_000_000).contains(&received), "{received}");
    within(world.gate.exceeded()).await;
}
