//! Bodies, interim responses and WebSockets on opened connections: they pass as they arrive.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::certificate;
use crate::server::Server;
use crate::world::{World, here, within};

const NAMES: [&str; 1] = ["api.example.org"];
const VALUE: &str = "sk-7e3C9a5F1b8D4c2E6a0B";

type ServerStream = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
type ClientStream = tokio_rustls::client::TlsStream<tokio::io::DuplexStream>;

/// A TLS server whose connections a function serves, behind a gate that opens them.
async fn served<F, S>(serve: S) -> (Server, World)
where
    S: Fn(ServerStream) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, VALUE).unwrap();
    let (config, certificate) = certificate::signed(&NAMES);
    let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
    let server = Server::start(move |stream, _| {
        let (acceptor, serve) = (acceptor.clone(), serve.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            serve(stream).await;
        }
    })
    .await;
    let port = server.port;
    let text = format!(
        "network_allowlist:\n  - {{host: api.example.org, ports: [{port}]}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n\
         secrets: [{{name: API_KEY, from: 'file:{}', hosts: [api.example.org]}}]\n",
        key.display()
    );
    let world = World::opening(&text, here(&NAMES), certificate);
    (server, world)
}

async fn until<S: AsyncReadExt + Unpin>(stream: &mut S, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(within(stream.read_u8()).await.unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

async fn say(stream: &mut (impl AsyncWriteExt + Unpin), text: &str) {
    within(stream.write_all(text.as_bytes())).await.unwrap();
    within(stream.flush()).await.unwrap();
}

async fn opened(world: &World, server: &Server, fields: &str) -> ClientStream {
    let mut stream = world.dial_tls("api.example.org", server.port).await;
    let host = format!("Host: api.example.org:{}\r\n", server.port);
    say(&mut stream, &format!("POST /talk HTTP/1.1\r\n{host}{fields}\r\n")).await;
    stream
}

/// Each side waits for a piece of the other before it sends its next one, so a gate that waits for
/// a whole body in either direction never gets to the end.
#[tokio::test]
async fn chunks_pass_both_ways_while_both_bodies_are_open() {
    let (server, world) = served(|mut stream: ServerStream| async move {
        until(&mut stream, "\r\n\r\n").await;
        say(&mut stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        for _ in 0..3 {
            until(&mut stream, "4\r\nping\r\n").await;
            say(&mut stream, "4\r\npong\r\n").await;
        }
        until(&mut stream, "0\r\n\r\n").await;
        say(&mut stream, "0\r\n\r\n").await;
    })
    .await;
    let mut stream = opened(&world, &server, "Transfer-Encoding: chunked\r\n").await;
    assert!(until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 200 OK\r\n"));
    for _ in 0..3 {
        say(&mut stream, "4\r\nping\r\n").await;
        assert_eq!(until(&mut stream, "pong\r\n").await, "4\r\npong\r\n");
    }
    say(&mut stream, "0\r\n\r\n").await;
    assert_eq!(until(&mut stream, "0\r\n\r\n").await, "0\r\n\r\n");
}

#[tokio::test]
async fn program_that_waits_for_100_continue_gets_it_before_it_sends_its_body() {
    let (server, world) = served(|mut stream: ServerStream| async move {
        let head = until(&mut stream, "\r\n\r\n").await;
        assert!(head.to_lowercase().contains("expect: 100-continue\r\n"), "{head}");
        say(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
        until(&mut stream, "hello").await;
        say(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    })
    .await;
    let fields = "Content-Length: 5\r\nExpect: 100-continue\r\n";
    let mut stream = opened(&world, &server, fields).await;
    assert!(until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 100 Continue\r\n"));
    say(&mut stream, "hello").await;
    let answer = until(&mut stream, "\r\n\r\nok").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(world.event().await.status, Some(200));
}

#[tokio::test]
async fn websocket_passes_on_an_opened_connection_and_values_in_it_are_redacted() {
    let (server, world) = served(|mut stream: ServerStream| async move {
        let head = until(&mut stream, "\r\n\r\n").await;
        assert!(!head.to_lowercase().contains("extensions"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("Authorization: "));
        let key = key.unwrap_or_default().to_owned();
        let switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                         Connection: Upgrade\r\n\r\n";
        say(&mut stream, switching).await;
        until(&mut stream, "ping").await;
        // The value in two pieces.
        let (first, last) = key.split_at(key.len() / 2);
        say(&mut stream, &format!("[{first}")).await;
        say(&mut stream, &format!("{last}]")).await;
    })
    .await;
    let held = world.placeholder("API_KEY");
    let fields = format!(
        "Authorization: {held}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: x\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"
    );
    let mut stream = opened(&world, &server, &fields).await;
    let head = until(&mut stream, "\r\n\r\n").await;
    assert!(!head.starts_with("HTTP/1.1 101"), "only GET can begin a WebSocket: {head}");
    let mut stream = world.dial_tls("api.example.org", server.port).await;
    let host = format!("Host: api.example.org:{}\r\n", server.port);
    say(&mut stream, &format!("GET /talk HTTP/1.1\r\n{host}{fields}\r\n")).await;
    assert!(until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 101 "));
    say(&mut stream, "ping").await;
    let back = until(&mut stream, "]").await;
    assert_eq!(back, format!("[{}]", "*".repeat(VALUE.len())));
}

#[tokio::test]
async fn part_of_an_answer_of_a_bound_host_is_refused_and_not_asked_for() {
    let (server, world) = served(|mut stream: ServerStream| async move {
        let head = until(&mut stream, "\r\n\r\n").await.to_lowercase();
        assert!(!head.contains("range"), "{head}");
        let part = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\n\
                    Content-Length: 5\r\n\r\nsk-7e";
        say(&mut stream, part).await;
    })
    .await;
    let fields = "Range: bytes=0-4\r\nIf-Range: \"a\"\r\nContent-Length: 0\r\n";
    let mut stream = opened(&world, &server, fields).await;
    let answer = until(&mut stream, "}").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("a part although the gate asked for the whole"), "{answer}");
}

#[tokio::test]
async fn placeholder_in_a_trailer_of_a_request_is_an_alarm() {
    let (server, world) = served(|mut stream: ServerStream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        assert!(!String::from_utf8_lossy(&all).contains("X-Copy"), "nothing of it is sent");
    })
    .await;
    let held = world.placeholder("API_KEY");
    let mut stream = opened(&world, &server, "Transfer-Encoding: chunked\r\n").await;
    say(&mut stream, &format!("2\r\nab\r\n0\r\nX-Copy: {held}\r\n\r\n")).await;
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(&*world.event().await.denial.unwrap().control, "secrets");
}
