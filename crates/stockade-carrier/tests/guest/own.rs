//! A guest in a wall without our launcher: two pipes, and listeners of its own.

use std::os::fd::AsRawFd;
use std::process::{Command as Process, Stdio};
use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use stockade_carrier::{Link, guest_bytes, guest_file};
use stockade_provider::{Carried, Destination, Duplex, Gateway};
use stockade_splice::SpliceStream;
use stockade_testing::{Scratch, set_mode, skipped};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};

use crate::support::{Guest, Outcome, SETTINGS, command, run};

/// The size of the download from port 80.
const DOWNLOAD: usize = 32 << 20;

/// Resolves `name<N>` to 127.64.0.N, and records the destinations of streams.
#[derive(Debug, Default)]
struct TestGateway {
    opened: Mutex<Vec<Destination>>,
}

impl Gateway for TestGateway {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        assert!(SpliceStream::opener(&*stream).is_none(), "no descriptor can pass a pump");
        self.opened.lock().unwrap().push(destination.clone());
        Box::pin(async move {
            // An error means that the program closed its end, which is not tested here.
            let _ = match destination {
                Destination::Names => answer(stream).await,
                Destination::Address { port: 80, .. } => download(stream).await,
                Destination::Address { .. } => echo(stream, b"name ").await,
                Destination::Proxy => echo(stream, b"proxy ").await,
                Destination::Tools => echo(stream, b"tools ").await,
                Destination::Denials => hear(stream).await,
                Destination::Host { .. } | Destination::Request { .. } => {
                    unreachable!("a guest knows no names")
                }
            };
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: true }
    }

    fn most_streams(&self) -> usize {
        64
    }
}

async fn download(mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    stream.write_all(&vec![7; DOWNLOAD]).await?;
    stream.shutdown().await
}

async fn echo(stream: Box<dyn Duplex>, first: &[u8]) -> std::io::Result<()> {
    let (mut reader, mut writer) = split(stream);
    writer.write_all(first).await?;
    copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

/// Reads one name, as a wall does, and says nothing.
async fn hear(mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    let mut name = vec![0; "az\n".len()];
    stream.read_exact(&mut name).await?;
    assert_eq!(name, b"az\n");
    stream.shutdown().await
}

async fn answer(mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    loop {
        let mut question = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut question).await?;
        // The digit at the end of the first label, after the header and the label's length.
        let number = question[12 + usize::from(question[12])] - b'0';
        let mut answer = question[..2].to_vec();
        answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        answer.extend(&question[12..]);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 64, 0, number]);
        stream.write_u16(answer.len() as u16).await?;
        stream.write_all(&answer).await?;
    }
}

/// Starts a guest without a launcher in its own namespaces, where its listeners cannot conflict.
fn linked(gateway: &Arc<TestGateway>, words: &[&str]) -> Option<(Guest, Link)> {
    let namespaces = |script: &str, arguments: &[&str]| {
        let mut unshare = Process::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]);
        unshare.args(["--kill-child", "sh", "-c", script]).args(arguments);
        unshare.stderr(Stdio::null());
        unshare
    };
    let prepare = "mount -t tmpfs none /run && ip link set lo up";
    if !namespaces(prepare, &[]).status().is_ok_and(|status| status.success()) {
        skipped("namespaces", "unshare(1) and ip(8) cannot make namespaces here");
        return None;
    }
    let file = guest_file().unwrap();
    // Kept open across exec, because `unshare` is executed before the guest.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let arguments: Vec<&str> = [path.as_str(), "stdio"].iter().chain(words).copied().collect();
    let script = format!("{prepare} && exec \"$0\" \"$@\"");
    let (guest, stream, _) = Guest::piped(&mut namespaces(&script, &arguments));
    let gateway: Arc<dyn Gateway> = Arc::clone(gateway) as Arc<dyn Gateway>;
    Some((guest, Link::open(stream, Some(gateway), SETTINGS).unwrap()))
}

const PRELUDE: &str = r"
import errno, socket, struct
def question(name):
    labels = b''.join(bytes([len(label)]) + label for label in name.split(b'.'))
    return b'\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00' + labels + b'\x00\x00\x01\x00\x01'
def resolve(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(10)
        asker.sendto(question(name), ('127.0.0.53', 53))
        return socket.inet_ntoa(asker.recv(512)[-4:])
def resolve_by_tcp(name):
    with socket.create_connection(('127.0.0.53', 53), 10) as asker:
        asker.sendall(struct.pack('>H', len(question(name))) + question(name))
        with asker.makefile('rb') as answer:
            length, = struct.unpack('>H', answer.read(2))
            return socket.inet_ntoa(answer.read(length)[-4:])
def said(place, family=socket.AF_INET):
    with socket.socket(family) as connection:
        connection.settimeout(10)
        try:
            connection.connect(place)
        except OSError as error:
            return errno.errorcode[error.errno]
        connection.sendall(b'hello')
        connection.shutdown(socket.SHUT_WR)
        pieces = []
        while piece := connection.recv(1 << 16): pieces.append(piece)
        return b''.join(pieces).decode()
";

async fn python(link: &Link, script: &str) -> Outcome {
    run(link, &command(&["python3", "-c", &format!("{PRELUDE}{script}")]), b"").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_without_a_launcher_opens_its_own_network_and_tool_socket() {
    let gateway = Arc::new(TestGateway::default());
    let Some((_guest, link)) = linked(&gateway, &["network=443", "tools"]) else { return };
    let asked = python(
        &link,
        r"
print(said(('127.64.0.1', 443)))
print(resolve(b'name1.test'), said(('127.64.0.1', 443)), said(('127.64.0.1', 444)))
print(resolve_by_tcp(b'name2.test'), said(('127.64.0.2', 443)), said(('127.64.0.3', 443)))
print(said(('127.0.0.54', 3128)), '|', said('/run/stockade/tools.sock', socket.AF_UNIX))
with socket.create_server(('127.0.0.1', 443)): print('its own 443')
",
    )
    .await;
    let expected = "ECONNREFUSED\n127.64.0.1 name hello ECONNREFUSED\n\
        127.64.0.2 name hello ECONNREFUSED\nproxy hello | tools hello\nits own 443\n";
    assert_eq!(asked, Outcome::exited(0, expected, ""));
    let at = |number| Destination::Address { address: [127, 64, 0, number].into(), port: 443 };
    let opened = gateway.opened.lock().unwrap().clone();
    let (names, proxy, tools) = (Destination::Names, Destination::Proxy, Destination::Tools);
    assert_eq!(opened, [names.clone(), at(1), names, at(2), proxy, tools]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_without_a_launcher_listens_at_the_loopback_addresses_of_its_arguments() {
    let gateway = Arc::new(TestGateway::default());
    let words = ["network=443", "literals=127.0.0.1:5432,127.0.0.2:5433"];
    let Some((_guest, link)) = linked(&gateway, &words) else { return };
    let asked = python(
        &link,
        r"
print(said(('127.0.0.1', 5432)), said(('127.0.0.2', 5433)), said(('127.0.0.1', 5433)))
",
    )
    .await;
    assert_eq!(asked, Outcome::exited(0, "name hello name hello ECONNREFUSED\n", ""));
    let at = |last, port| Destination::Address { address: [127, 0, 0, last].into(), port };
    assert_eq!(*gateway.opened.lock().unwrap(), [at(1, 5432), at(2, 5433)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_command_is_reported_through_the_guest_before_the_stub_ends() {
    let gateway = Arc::new(TestGateway::default());
    let words = ["denials=/run/stockade-guest/denials.sock"];
    let Some((_guest, link)) = linked(&gateway, &words) else { return };
    // The guest's own executable is what a stub starts.
    let scratch = Scratch::new();
    let executable = scratch.file("guest", guest_bytes());
    set_mode(executable.as_ref(), 0o755);
    let stub = run(&link, &command(&[&executable, "denied", "az"]), b"").await;
    assert_eq!(stub, Outcome::exited(0, "", ""));
    assert_eq!(*gateway.opened.lock().unwrap(), [Destination::Denials]);
    let none = run(&link, &command(&[&executable, "denied"]), b"").await;
    assert_eq!(none, Outcome::exited(1, "", ""));
    assert_eq!(gateway.opened.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_download_arrives_complete_over_a_pumped_link() {
    let gateway = Arc::new(TestGateway::default());
    let Some((_guest, link)) = linked(&gateway, &["network=80"]) else { return };
    let script = "resolve(b'name1.test')\nprint(len(said(('127.64.0.1', 80))))\n";
    let loaded = python(&link, script).await;
    assert_eq!(loaded, Outcome::exited(0, &format!("{DOWNLOAD}\n"), ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_without_listener_arguments_opens_no_listener() {
    let gateway = Arc::new(TestGateway::default());
    let Some((_guest, link)) = linked(&gateway, &[]) else { return };
    let script = "print(said(('127.0.0.54', 3128)), said(('127.0.0.53', 53)))\n";
    let refused = python(&link, script).await;
    assert_eq!(refused, Outcome::exited(0, "ECONNREFUSED ECONNREFUSED\n", ""));
}

#[test]
fn guest_that_cannot_listen_reports_the_address_and_the_error() {
    let file = guest_file().unwrap();
    // Without the right to bind the port, or with the port taken, the guest cannot listen.
    let _taken = std::net::TcpListener::bind("127.0.0.53:53");
    let said = Process::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .args(["stdio", "network=80"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8(said.stderr).unwrap();
    assert!(message.starts_with("stockade-guest: cannot listen at 127.0.0.53:53: "), "{message}");
    assert_eq!(said.status.code(), Some(75));
}
