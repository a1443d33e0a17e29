//! HTTP/2 on connections whose TLS ends at the gate, to servers of HTTP/1.1 and of HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use stockade_record::{Inspection, SecretAct};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::certificate;
use crate::opened::hello;
use crate::server::Server;
use crate::world::{World, here, within};

const NAMES: [&str; 2] = ["api.example.org", "other.example.org"];
const VALUE: &str = "sk-2c8E4b0A6f3D9a5C1e7B";

pub(crate) type Client = SendRequest<Full<Bytes>>;

pub(crate) fn policy(port: u16, conditions: &str) -> String {
    format!(
        "network_allowlist:\n  - {{host: api.example.org, ports: [{port}], {conditions}}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n"
    )
}

/// A server of HTTP/1.1 behind a gate.
async fn to_one(conditions: &str) -> (Server, World) {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, hello).await;
    let world = World::opening(&policy(server.port, conditions), here(&NAMES), certificate);
    (server, world)
}

/// What a server of HTTP/2 answers: the request's line, authority, fields and body, and a trailer.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut text = format!("{} {}\n", parts.method, parts.uri);
    for (name, value) in &parts.headers {
        text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
    }
    text.push_str(&String::from_utf8_lossy(&body));
    Ok(Response::new(Full::new(Bytes::from(text))))
}

/// A server of HTTP/2 behind a gate. It remembers what it echoed.
async fn to_two(policy_of: impl Fn(u16) -> String) -> (Server, World) {
    let (config, certificate) = certificate::signed_two(&NAMES);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(move |stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let answer = echo(request).await?;
                    let (parts, body) = answer.into_parts();
                    let text = body.collect().await?.to_bytes();
                    seen.send_modify(|seen| seen.bytes.extend_from_slice(&text));
                    let mut trailers = HeaderMap::new();
                    trailers.insert("x-trailer", "end".parse().unwrap());
                    trailers.insert("set-cookie", "no=1".parse().unwrap());
                    let frames =
                        [Ok::<_, Infallible>(Frame::data(text)), Ok(Frame::trailers(trailers))];
                    let body = StreamBody::new(futures_of(frames));
                    Ok::<_, Infallible>(Response::from_parts(parts, body))
                }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    let world = World::opening(&policy_of(server.port), here(&NAMES), certificate);
    (server, world)
}

/// A stream of these items.
fn futures_of<T: Unpin, const N: usize>(items: [T; N]) -> Items<T> {
    Items(items.into_iter().collect())
}

struct Items<T>(std::collections::VecDeque<T>);

impl<T: Unpin> futures_core::Stream for Items<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

pub(crate) async fn client(world: &World, port: u16) -> Client {
    let stream = world.dial_two("api.example.org", port).await;
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (client, connection) = within(handshake).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn request(port: u16, path: &str) -> Request<Full<Bytes>> {
    let uri = format!("https://api.example.org:{port}{path}");
    Request::builder().uri(uri).body(Full::default()).unwrap()
}

pub(crate) async fn ask(client: &mut Client, request: Request<Full<Bytes>>) -> (u16, String) {
    let answer = within(client.send_request(request)).await.unwrap();
    let status = answer.status().as_u16();
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

const REPOS: &str = "methods: [GET], paths: ['/repos/**']";

#[tokio::test]
async fn each_stream_is_judged_and_written_anew_for_a_server_of_http1() {
    let (server, world) = to_one(REPOS).await;
    let port = server.port;
    let mut client = client(&world, port).await;
    assert_eq!(ask(&mut client, request(port, "/repos/a?x=1")).await, (200, "hello".to_owned()));
    for path in ["/admin", "/repos/../admin", "/repos/%2e%2e/admin", "/repos/%2e%2e%2fadmin", "/"] {
        let (status, body) = ask(&mut client, request(port, path)).await;
        assert!([400, 403].contains(&status), "{path}: {status}");
        assert!(body.contains("\"how_to_allow\""), "{body}");
    }
    let mut post = request(port, "/repos/a");
    *post.method_mut() = hyper::Method::POST;
    assert_eq!(ask(&mut client, post).await.0, 403);
    assert_eq!(ask(&mut client, request(port, "//repos//%61")).await.0, 200);
    let text = server.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.ends_with("HTTP/1.1")).collect();
    assert_eq!(lines, ["GET /repos/a?x=1 HTTP/1.1", "GET /repos/a HTTP/1.1"]);
    let host = format!("host: api.example.org:{port}");
    assert_eq!(text.to_lowercase().matches(&host).count(), 2, "{text}");
    let events = world.events(8).await;
    assert!(events.iter().all(|event| event.inspection == Inspection::Opened));
    assert_eq!(events.iter().filter(|event| event.denial.is_some()).count(), 6);
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn authority_scheme_and_host_of_a_stream_are_those_of_the_connection() {
    let (server, world) = to_one("inspect: true").await;
    let port = server.port;
    let mut client = client(&world, port).await;
    for uri in [
        format!("https://other.example.org:{port}/"),
        "https://api.example.org/".to_owned(),
        format!("http://api.example.org:{port}/"),
        format!("https://127.0.0.1:{port}/"),
    ] {
        let asked = Request::builder().uri(&uri).body(Full::default()).unwrap();
        let (status, _) = ask(&mut client, asked).await;
        assert_eq!(status, 400, "{uri}");
    }
    let mut other = request(port, "/");
    other.headers_mut().insert("host", "other.example.org".parse().unwrap());
    assert_eq!(ask(&mut client, other).await.0, 400);
    assert_eq!(server.text(), "");
    assert_eq!(ask(&mut client, request(port, "/")).await.0, 200);
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields that are not indexed.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

#[tokio::test]
async fn malformed_pseudo_headers_and_framing_reach_no_server() {
    let (server, world) = to_one("inspect: true").await;
    malformed_requests_reach_no_server(&server, &world, " HTTP/1.1\r\n").await;
    let (server, world) = to_two(|port| policy(port, "inspect: true")).await;
    malformed_requests_reach_no_server(&server, &world, " https://").await;
}

/// `mark` is in each request as the server shows it.
async fn malformed_requests_reach_no_server(server: &Server, world: &World, mark: &str) {
    let port = server.port;
    let authority = format!("api.example.org:{port}");
    let base = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority.as_str()),
        (":path", "/smuggled"),
    ];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut all: Vec<(&str, &str)> = base.to_vec();
        all.extend_from_slice(more);
        all
    };
    let without = |name: &str| base.iter().copied().filter(|(own, _)| *own != name).collect();
    let replaced = |name: &str, value: &'static str| {
        base.iter().map(|(own, held)| (*own, if *own == name { value } else { held })).collect()
    };
    let cases: Vec<Vec<(&str, &str)>> = vec![
        with(&[(":path", "/other")]),
        with(&[(":authority", "other.example.org")]),
        with(&[(":method", "POST")]),
        with(&[("x", "1"), (":late", "x")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("transfer-encoding", "xchunked")]),
        with(&[("transfer-encoding ", "chunked")]),
        with(&[("content-length", "4"), ("transfer-encoding", "chunked")]),
        with(&[("x", "a\r\n b")]),
        with(&[("x", "a\nTransfer-Encoding: chunked")]),
        with(&[("x", "a\0b")]),
        with(&[("connection", "close")]),
        with(&[("Upper-Case", "x")]),
        with(&[("x", "a\r\nTransfer-Encoding: chunked")]),
        with(&[("x\r\ny", "a")]),
        with(&[("content-length", "5"), ("content-length", "6")]),
        with(&[("content-length", "+5")]),
        with(&[("host", "a"), ("host", "b")]),
        without(":path"),
        without(":method"),
        without(":scheme"),
        without(":authority"),
        replaced(":path", ""),
        replaced(":path", "smuggled"),
        replaced(":path", "/a b"),
        replaced(":path", "/a\r\nX: y"),
        replaced(":path", "https://other.example.org/"),
        replaced(":method", "GET /x HTTP/1.1\r\nX: y"),
        replaced(":method", "CONNECT"),
        replaced(":method", "get"),
        replaced(":scheme", "http"),
    ];
    for fields in &cases {
        let mut stream = world.dial_two("api.example.org", port).await;
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[]));
        // END_STREAM and END_HEADERS.
        bytes.extend(frame(1, 5, 1, &block(fields)));
        // A ping, whose answer comes after what became of the request, or the connection ends.
        bytes.extend(frame(6, 0, 0, &[7; 8]));
        within(stream.write_all(&bytes)).await.unwrap();
        let _ = within(stream.flush()).await;
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.windows(8).any(|part| part == [7; 8]) {
            match within(stream.read(&mut buffer)).await {
                Ok(read @ 1..) => seen.extend_from_slice(&buffer[..read]),
                _ => break,
            }
        }
    }
    // The same bytes with nothing wrong reach it.
    let mut client = client(world, port).await;
    assert_eq!(ask(&mut client, request(port, "/last")).await.0, 200);
    let text = server.text();
    assert_eq!(text.matches(mark).count(), 1, "{text}");
    assert!(text.starts_with("GET ") && text.lines().next().unwrap().contains("/last"), "{text}");
}

#[tokio::test]
async fn body_and_its_declared_length_must_agree() {
    let (server, world) = to_one("inspect: true").await;
    wrong_lengths_are_refused(&server, &world).await;
    let (server, world) = to_two(|port| policy(port, "inspect: true")).await;
    wrong_lengths_are_refused(&server, &world).await;
}

async fn wrong_lengths_are_refused(server: &Server, world: &World) {
    let port = server.port;
    let authority = format!("api.example.org:{port}");
    for (declared, sent) in [("2", &b"GET /smuggled HTTP/1.1\r\n\r\n"[..]), ("50", &b"x"[..])] {
        let mut stream = world.dial_two("api.example.org", port).await;
        let fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", authority.as_str()),
            (":path", "/"),
            ("content-length", declared),
        ];
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[]));
        bytes.extend(frame(1, 4, 1, &block(&fields)));
        bytes.extend(frame(0, 1, 1, sent));
        within(stream.write_all(&bytes)).await.unwrap();
        let _ = within(stream.flush()).await;
        let event = world.events(1).await;
        assert!(event.iter().all(|event| event.status != Some(200)), "{event:?}");
    }
    assert!(!server.text().contains("smuggled"), "{}", server.text());
}

#[tokio::test]
async fn server_of_http2_gets_http2_and_bodies_and_trailers_pass() {
    let (server, world) = to_two(|port| policy(port, "inspect: true")).await;
    let port = server.port;
    let mut client = client(&world, port).await;
    let body = Full::new(Bytes::from(vec![b'x'; 300_000]));
    let post = request(port, "/upload").map(|_| body);
    let post = {
        let mut post = post;
        *post.method_mut() = hyper::Method::POST;
        post
    };
    let answer = within(client.send_request(post)).await.unwrap();
    let body = within(answer.into_body().collect()).await.unwrap();
    let trailers = body.trailers().cloned().unwrap();
    assert_eq!(trailers.get("x-trailer").unwrap(), "end");
    assert!(trailers.get("set-cookie").is_none(), "it means something before a body only");
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(
        text.starts_with(&format!("POST https://api.example.org:{port}/upload\n")),
        "{text:.200}"
    );
    assert!(text.matches('x').count() - text[..200].matches("example").count() >= 300_000);
    let event = world.event().await;
    assert!(event.sent_bytes >= 300_000 && event.received_bytes >= 300_000, "{event:?}");
}

#[tokio::test]
async fn many_streams_at_once_are_served() {
    for two in [false, true] {
        let (server, world) = match two {
            true => to_two(|port| policy(port, "inspect: true")).await,
            false => to_one("inspect: true").await,
        };
        let port = server.port;
        let client = client(&world, port).await;
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..50 {
            let mut client = client.clone();
            asking.spawn(
                async move { ask(&mut client, request(port, &format!("/{number}"))).await.0 },
            );
        }
        while let Some(status) = asking.join_next().await {
            assert_eq!(status.unwrap(), 200);
        }
        assert_eq!(world.events(50).await.len(), 50);
    }
}

#[tokio::test]
async fn secret_is_sent_redacted_and_guarded_over_http2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), VALUE).unwrap();
    let secrets = format!(
        "secrets: [{{name: API_KEY, from: 'file:{}/key', hosts: [api.example.org]}}]\n",
        folder.path().display()
    );
    let (server, world) = to_two(|port| policy(port, "inspect: true") + &secrets).await;
    let port = server.port;
    let held = world.placeholder("API_KEY");
    let mut client = client(&world, port).await;
    let mut asked = request(port, "/");
    let bearer = format!("Bearer {held}");
    asked.headers_mut().insert("authorization", bearer.parse().unwrap());
    let (status, body) = ask(&mut client, asked).await;
    assert_eq!(status, 200);
    assert!(server.text().contains(&format!("authorization: Bearer {VALUE}")), "{}", server.text());
    assert!(body.contains("authorization: Bearer ****") && !body.contains(VALUE), "{body}");
    let event = world.event().await;
    let acts: Vec<SecretAct> = event.secrets.iter().map(|used| used.act).collect();
    assert_eq!(acts, [SecretAct::Sent, SecretAct::Echoed]);
    let mut copied = request(port, "/").map(|_| Full::new(Bytes::from(format!("k={held}"))));
    *copied.method_mut() = hyper::Method::POST;
    let mut wrong = request(port, "/");
    wrong.headers_mut().insert("x-copy", held.parse().unwrap());
    for asked in [copied, wrong, request(port, &format!("/?k={held}"))] {
        let (status, body) = ask(&mut client, asked).await;
        assert_eq!(status, 403, "{body}");
        assert!(body.contains("the placeholder of the secret API_KEY"), "{body}");
    }
    assert!(!server.text().contains(&held));
}

/// Answers with the value of Authorization as the name of a header.
fn in_header_name(head: &str) -> String {
    let field = head.lines().find(|line| line.to_lowercase().starts_with("authorization: bearer"));
    let value = field.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    format!("HTTP/1.1 200 OK\r\nX-{value}: back\r\nContent-Length: 0\r\n\r\n")
}

/// HTTP/2 has names in lower case only, so a value with capitals comes back changed.
#[tokio::test]
async fn secret_in_the_name_of_a_header_is_redacted_over_http2() {
    let folder = tempfile::tempdir().unwrap();
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, in_header_name).await;
    let port = server.port;
    let (lower, mixed) = ("key-4f9a7c2e8b1d6a3f5c9e", VALUE);
    std::fs::write(folder.path().join("lower"), lower).unwrap();
    std::fs::write(folder.path().join("mixed"), mixed).unwrap();
    let secret = |name: &str| {
        let from = folder.path().join(name);
        format!("{{name: {name}, from: 'file:{}', hosts: [api.example.org]}}", from.display())
    };
    let secrets = format!("secrets: [{}, {}]\n", secret("lower"), secret("mixed"));
    let text = policy(port, "inspect: true") + &secrets;
    let world = World::opening(&text, here(&NAMES), certificate);
    let mut client = client(&world, port).await;
    for (name, value) in [("lower", lower), ("mixed", mixed)] {
        let mut asked = request(port, "/");
        let bearer = format!("Bearer {}", world.placeholder(name));
        asked.headers_mut().insert("authorization", bearer.parse().unwrap());
        let answer = within(client.send_request(asked)).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(server.text().contains(value), "the server has it");
        let names: Vec<&str> = answer.headers().keys().map(|name| name.as_str()).collect();
        let redacted = format!("x-{}", "*".repeat(value.len()));
        assert!(names.contains(&redacted.as_str()), "{names:?}");
        assert!(!format!("{:?}", answer.headers()).contains(&value.to_lowercase()));
    }
    for (event, name) in world.events(2).await.iter().zip(["lower", "mixed"]) {
        let acts: Vec<_> =
            event.secrets.iter().map(|used| (used.name.as_str(), used.act)).collect();
        assert_eq!(acts, [(name, SecretAct::Sent), (name, SecretAct::Echoed)]);
    }
}

/// The gate offers a server of an HTTP/1.1 program no other version.
#[tokio::test]
async fn program_of_http1_is_served_over_http1_and_never_over_http2() {
    let (mut config, certificate) = certificate::signed(&NAMES);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = Server::https(config, hello).await;
    let port = server.port;
    let world = World::opening(&policy(port, "inspect: true"), here(&NAMES), certificate);
    let asked =
        format!("GET / HTTP/1.1\r\nHost: api.example.org:{port}\r\nConnection: close\r\n\r\n");
    let answer = world.ask_tls("api.example.org", port, &asked).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(server.text().starts_with("GET / HTTP/1.1\r\n"), "{}", server.text());
    let (server, world) = to_two(|port| policy(port, "inspect: true")).await;
    let asked = asked.replace(&port.to_string(), &server.port.to_string());
    let answer = world.ask_tls("api.example.org", server.port, &asked).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("no TLS with api.example.org"), "{answer}");
    assert_eq!(server.text(), "");
}
