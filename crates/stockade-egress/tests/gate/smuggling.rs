//! Requests that two parsers would split differently.

use crate::server::Server;
use crate::world::{World, here, opens};

/// Heads that two parsers would split differently, each with the status of the gate's answer.
pub(crate) fn ambiguous(port: u16) -> Vec<(String, &'static str)> {
    let host = format!("Host: a.example.org:{port}\r\n");
    let smuggled = format!("GET /smuggled HTTP/1.1\r\n{host}\r\n");
    let with = |fields: &str, body: &str| format!("POST / HTTP/1.1\r\n{host}{fields}\r\n{body}");
    vec![
        (with("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", &smuggled), "400"),
        (with("Content-Length: 0\r\nContent-Length: 40\r\n", &smuggled), "400"),
        (with("Content-Length: +5\r\n", &smuggled), "400"),
        (with("Transfer-Encoding: xchunked\r\n", &smuggled), "400"),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", &smuggled), "400"),
        (with("Transfer-Encoding : chunked\r\n", &smuggled), "400"),
        (with("X: a\r\n b\r\n", &smuggled), "400"),
        (with("X: a\nTransfer-Encoding: chunked\r\n", &smuggled), "400"),
        (with(&host, &smuggled), "400"),
        (format!("GET / HTTP/1.1\n{host}\n"), "400"),
        ("GET /\r\n".to_owned(), "505"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "505"),
        (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(70_000)), "431"),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(200)), "431"),
        (format!("CONNECT a.example.org:{port} HTTP/1.1\r\n{host}\r\n"), "405"),
    ]
}

#[tokio::test]
async fn ambiguous_requests_are_refused_and_never_forwarded() {
    let server = Server::hello().await;
    let port = server.port;
    let names = ["a.example.org"];
    let world = World::new(&opens(port, &names, ""), here(&names));
    let ask = async |head: String| {
        let mut program = world.dial("a.example.org", port).await;
        program.try_send(head).await;
        let answer = String::from_utf8(program.rest().await).unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let host = format!("Host: a.example.org:{port}\r\n");
    let plain = format!("GET /plain HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    assert_eq!(ask(plain).await, "200");
    for (head, status) in ambiguous(port) {
        assert_eq!(ask(head.clone()).await, status, "{}", &head[..head.len().min(200)]);
    }
    assert!(!server.text().contains("smuggled"));
    assert_eq!(server.text().matches(" HTTP/1.1\r\n").count(), 1);
}

#[tokio::test]
async fn malformed_chunks_end_the_connection_before_the_next_request() {
    let server = Server::hello().await;
    let port = server.port;
    let names = ["a.example.org"];
    let world = World::new(&opens(port, &names, ""), here(&names));
    let host = format!("Host: a.example.org:{port}\r\n");
    for body in ["5;x=y\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "4\r\nhello\r\n0\r\n\r\n"]
    {
        let mut program = world.dial("a.example.org", port).await;
        let head = format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n");
        let smuggled = format!("GET /smuggled HTTP/1.1\r\n{host}\r\n");
        program.try_send(head + body + &smuggled).await;
        program.rest().await;
    }
    assert!(!server.text().contains("smuggled"));
    assert_eq!(world.events(3).await.len(), 3);
}

#[tokio::test]
async fn pipelined_requests_are_served_one_after_the_other_and_each_is_judged() {
    let server = Server::hello().await;
    let port = server.port;
    let names = ["a.example.org", "b.example.org"];
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&names));
    let request = |host: &str, path: &str| {
        format!("GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
    };
    let mut program = world.proxy();
    let all = [
        request("a.example.org", "/1"),
        request("a.example.org", "/2"),
        request("b.example.org", "/3"),
        request("a.example.org", "/4"),
    ];
    program.send(all.concat()).await;
    assert_eq!(program.answer().await.status, 200);
    assert_eq!(program.answer().await.status, 200);
    assert_eq!(program.answer().await.status, 403);
    assert!(program.rest().await.is_empty());
    assert!(server.text().contains("/2") && !server.text().contains("/4"));
}

#[tokio::test]
async fn upgrade_to_http2_is_ignored() {
    let server = Server::hello().await;
    let port = server.port;
    let names = ["a.example.org"];
    let world = World::new(&opens(port, &names, ""), here(&names));
    let mut program = world.dial("a.example.org", port).await;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\nConnection: Upgrade, HTTP2-Settings\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    );
    program.send(head).await;
    assert_eq!(program.answer().await.status, 200);
    assert_eq!(server.text(), format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n"));
}
