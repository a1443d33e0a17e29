//! Tools that are HTTP endpoints, with a real server in plain text and with TLS.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use stockade_tools::Connect;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::certificate;
use crate::world::{Workshop, World, code, message, result};

/// A local server that sends the same bytes to each request and remembers the requests.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Into<Vec<u8>>, tls: Option<TlsAcceptor>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, remembered) = (Arc::new(answer.into()), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, seen, tls) =
                    (Arc::clone(&answer), Arc::clone(&remembered), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &answer, &seen).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &answer, &seen).await;
                            }
                        }
                    }
                });
            }
        });
        Server { port, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &[u8],
    seen: &Mutex<Vec<String>>,
) {
    let mut held = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        held.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&held).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.unwrap_or("0").parse().unwrap() {
            break;
        }
    }
    seen.lock().unwrap().push(String::from_utf8_lossy(&held).into_owned());
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn tool(url: &str, more: &str) -> String {
    format!(
        "tools:\n  - name: web\n    http: {{url: '{url}'{more}}}\n    input_schema: {{type: object}}\n    output_schema: {{type: [object, 'null']}}\n"
    )
}

async fn ask(answer: impl Into<Vec<u8>>) -> Value {
    let server = Server::start(answer, None).await;
    let shop = Workshop::new();
    let url = format!("http://127.0.0.1:{}/x", server.port);
    let world = World::new(shop.tools(&tool(&url, "")).await, "limits: {max_tool_seconds: 5}");
    world.call("web", json!({"q": "ü"})).await
}

#[tokio::test]
async fn arguments_are_posted_and_the_response_is_the_result() {
    let server = Server::start(ok(r#"{"degrees": 21}"#), None).await;
    let mut shop = Workshop::new();
    shop.around.environment.insert("WEATHER_TOKEN".into(), "Bearer hunter2".into());
    shop.write("key", "from-a-file\n");
    let url = format!("http://127.0.0.1:{}/weather?units=metric", server.port);
    let more = ", method: PUT, headers: {X-Client: me}, headers_from: {Authorization: 'env:WEATHER_TOKEN', X-Key: 'file:./key'}";
    let tools = shop.tools(&tool(&url, more)).await;
    assert!(!format!("{tools:?}").contains("hunter2"));
    let world = World::new(tools, "");
    let answer = world.call("web", json!({"city": "Köln"})).await;
    assert_eq!(answer, result(json!({"degrees": 21})));
    let seen = &server.seen()[0];
    assert!(seen.starts_with("PUT /weather?units=metric HTTP/1.1\r\n"), "{seen}");
    for header in [
        format!("host: 127.0.0.1:{}", server.port),
        "content-type: application/json".to_owned(),
        "x-client: me".to_owned(),
        "authorization: Bearer hunter2".to_owned(),
        "x-key: from-a-file".to_owned(),
    ] {
        assert!(seen.contains(&format!("\r\n{header}\r\n")), "{header} is not in {seen}");
    }
    assert!(seen.ends_with("\r\n\r\n{\"city\":\"Köln\"}"), "{seen}");
}

#[tokio::test]
async fn tls_server_is_authenticated() {
    let (config, authority) = certificate::server(&["localhost"]);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(ok("{}"), Some(acceptor)).await;
    let mut shop = Workshop::new();
    let url = format!("https://localhost:{}/", server.port);
    // A machine without any certificates reports that instead.
    shop.around.authorities = vec![certificate::server(&["other"]).1];
    let world = World::new(shop.tools(&tool(&url, "")).await, "");
    let unknown = world.call("web", json!({})).await;
    assert_eq!(code(&unknown), "broken");
    assert!(message(&unknown).contains("certificate"), "{unknown}");
    shop.around.authorities = vec![authority];
    let world = World::new(shop.tools(&tool(&url, "")).await, "");
    assert_eq!(world.call("web", json!({})).await, result(json!({})));
    let other_name = format!("https://127.0.0.1:{}/", server.port);
    let world = World::new(shop.tools(&tool(&other_name, "")).await, "");
    assert_eq!(code(&world.call("web", json!({})).await), "broken");
    assert_eq!(server.seen().len(), 1);
}

/// Resolves every name to this machine, and remembers the names.
#[derive(Debug, Default)]
struct Here(Mutex<Vec<(String, u16)>>);

impl Connect for Here {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<TcpStream>> {
        self.0.lock().unwrap().push((host.to_owned(), port));
        Box::pin(TcpStream::connect(("127.0.0.1", port)))
    }
}

#[tokio::test]
async fn custom_connector_is_used_and_tls_still_checks_the_name() {
    let (config, authority) = certificate::server(&["api.example.org"]);
    let server = Server::start(ok("{}"), Some(TlsAcceptor::from(Arc::new(config)))).await;
    let mut shop = Workshop::new();
    let here = Arc::new(Here::default());
    shop.around.authorities = vec![authority];
    shop.around.connect = here.clone();
    let url = format!("https://API.example.org.:{}/", server.port);
    let world = World::new(shop.tools(&tool(&url, "")).await, "");
    assert_eq!(world.call("web", json!({})).await, result(json!({})));
    assert_eq!(*here.0.lock().unwrap(), [("api.example.org".to_owned(), server.port)]);
    let host = format!("\r\nhost: api.example.org.:{}\r\n", server.port);
    assert!(server.seen()[0].contains(&host), "{:?}", server.seen());
}

#[tokio::test]
async fn errors_and_redirections_fail_the_call() {
    let missing = ask("HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\nno such city").await;
    let expected = "the tool's server answered 404 Not Found: no such city";
    assert_eq!((code(&missing), message(&missing)), ("failed".into(), expected.into()));
    let elsewhere = Server::start(ok("{}"), None).await;
    let moved = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/\r\nContent-Length: 0\r\n\r\n",
        elsewhere.port
    );
    let moved = ask(moved).await;
    assert_eq!(code(&moved), "failed");
    assert!(message(&moved).contains("redirections are not followed"), "{moved}");
    assert!(elsewhere.seen().is_empty());
    let empty = ask("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(empty, json!({"result": null}));
}

#[tokio::test]
async fn invalid_and_oversized_responses_are_refused() {
    assert_eq!(code(&ask(ok("<html>")).await), "invalid_result");
    assert_eq!(code(&ask(ok("{\"a\":1,\"a\":1}")).await), "invalid_result");
    let kind = ask(ok("[1]")).await;
    assert_eq!(code(&kind), "invalid_result");
    assert!(message(&kind).contains("`result` must be"), "{kind}");
    assert_eq!(
        code(&ask(ok(&format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20)))).await),
        "too_large"
    );
    assert_eq!(code(&ask(ok(&"[".repeat(10_000))).await), "too_deep");
    let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
        + &format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20)).repeat(3);
    assert_eq!(code(&ask(endless).await), "too_large");
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    assert_eq!(code(&ask(head).await), "broken");
    assert_eq!(code(&ask("SSH-2.0-OpenSSH\r\n").await), "broken");
    assert_eq!(code(&ask("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}").await), "broken");
}

#[tokio::test]
async fn silent_or_unreachable_server_fails_only_its_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let shop = Workshop::new();
    let url = format!("http://127.0.0.1:{port}/");
    let world = World::new(shop.tools(&tool(&url, "")).await, "limits: {max_tool_seconds: 0.3}");
    let (accepted, silent) = tokio::join!(listener.accept(), world.call("web", json!({})));
    assert_eq!(code(&silent), "timed_out");
    // Its connection is closed.
    let (mut stream, _) = accepted.unwrap();
    let mut bytes = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    drop((stream, listener));
    let away = world.call("web", json!({})).await;
    assert_eq!(code(&away), "broken");
    assert!(message(&away).starts_with("the tool's server cannot be reached"), "{away}");
    assert!(!message(&away).contains("127.0.0.1"), "{away}");
}

#[tokio::test]
async fn missing_header_value_is_an_error_before_the_run() {
    let mut shop = Workshop::new();
    let unset =
        shop.refusal(&tool("http://127.0.0.1/", ", headers_from: {A: 'env:NOT_SET_HERE'}")).await;
    assert!(unset.contains("NOT_SET_HERE"), "{unset}");
    let missing =
        shop.refusal(&tool("http://127.0.0.1/", ", headers_from: {A: 'file:./missing'}")).await;
    assert!(missing.contains("missing, which holds a header"), "{missing}");
    shop.around.environment.insert("TWO_LINES".into(), "hunter2\r\nX: y".into());
    let lines =
        shop.refusal(&tool("http://127.0.0.1/", ", headers_from: {A: 'env:TWO_LINES'}")).await;
    assert!(lines.contains("one line") && !lines.contains("hunter2"), "{lines}");
}
