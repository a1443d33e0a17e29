//! Requests that two parsers would split differently, on connections whose TLS ends at the gate.

use crate::certificate;
use crate::opened::hello;
use crate::server::Server;
use crate::smuggling::ambiguous;
use crate::world::{World, here};

const NAMES: [&str; 1] = ["a.example.org"];

async fn world(conditions: &str) -> (Server, World) {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, hello).await;
    let port = server.port;
    let text = format!(
        "network_allowlist:\n  - {{host: a.example.org, ports: [{port}], {conditions}}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n"
    );
    (server, World::opening(&text, here(&NAMES), certificate))
}

#[tokio::test]
async fn ambiguous_requests_are_refused_and_never_forwarded() {
    let (server, world) = world("inspect: true").await;
    let port = server.port;
    let host = format!("Host: a.example.org:{port}\r\n");
    let plain = format!("GET /plain HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    let ask = async |head: String| {
        let answer = world.ask_tls("a.example.org", port, &head).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(ask(plain).await, "200");
    for (head, status) in ambiguous(port) {
        assert_eq!(ask(head.clone()).await, status, "{}", &head[..head.len().min(200)]);
    }
    assert!(!server.text().contains("smuggled"));
    assert_eq!(server.text().matches(" HTTP/1.1\r\n").count(), 1);
}

#[tokio::test]
async fn malformed_chunks_end_the_connection_before_the_next_request() {
    let (server, world) = world("inspect: true").await;
    let port = server.port;
    let host = format!("Host: a.example.org:{port}\r\n");
    for body in ["5;x=y\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n"]
    {
        let head = format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n");
        let smuggled = format!("GET /smuggled HTTP/1.1\r\n{host}\r\n");
        world.ask_tls("a.example.org", port, &(head + body + &smuggled)).await;
    }
    assert!(!server.text().contains("smuggled"));
    assert_eq!(world.events(3).await.len(), 3);
}

#[tokio::test]
async fn fields_that_replace_method_or_path_are_refused_where_these_are_judged() {
    let (server, world) = world("methods: [GET]").await;
    let port = server.port;
    for field in ["X-HTTP-Method-Override: DELETE", "X_Original_URL: /admin", "X-Rewrite-Url: /b"] {
        let asked = format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n{field}\r\n\r\n");
        let answer = world.ask_tls("a.example.org", port, &asked).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{field}: {answer}");
    }
    assert_eq!(server.text(), "");
}
