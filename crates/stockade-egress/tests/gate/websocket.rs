//! WebSockets, bound to their host.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::Server;
use crate::world::{World, here, opens};

const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

/// Agrees to every upgrade, or to none, then echoes.
async fn server(answer: &'static str) -> Server {
    Server::start(move |mut stream, seen| async move {
        let mut buffer = [0; 4096];
        let mut held = Vec::new();
        while !held.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer).await {
                Ok(read @ 1..) => held.extend_from_slice(&buffer[..read]),
                _ => return,
            }
        }
        seen.send_modify(|seen| seen.bytes.extend_from_slice(&held));
        let _ = stream.write_all(answer.as_bytes()).await;
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..read]));
            let _ = stream.write_all(&buffer[..read]).await;
        }
    })
    .await
}

fn upgrade(host: &str, port: u16) -> String {
    format!(
        "GET /chat HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
    )
}

#[tokio::test]
async fn after_the_upgrade_bytes_pass_both_ways_to_that_host_only() {
    let server = server(SWITCHING).await;
    let port = server.port;
    let names = ["a.example.org", "b.example.org"];
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&names));
    let mut program = world.dial("a.example.org", port).await;
    program.send(upgrade("a.example.org", port)).await;
    assert!(program.head().await.starts_with("HTTP/1.1 101 "));
    let inner = format!("GET / HTTP/1.1\r\nHost: b.example.org:{port}\r\n\r\n");
    program.send(&inner).await;
    assert_eq!(program.exactly(inner.len()).await, inner.as_bytes());
    drop(program);
    let event = world.event().await;
    assert_eq!((event.status, event.host.as_str()), (Some(101), "a.example.org"));
    let mut denied = world.dial("a.example.org", port).await;
    denied.send(upgrade("b.example.org", port)).await;
    assert_eq!(denied.answer().await.status, 400);
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn bytes_sent_before_the_server_agrees_are_not_a_request() {
    let refusing = server("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    let port = refusing.port;
    let names = ["a.example.org"];
    let world = World::new(&opens(port, &names, ""), here(&names));
    let mut program = world.dial("a.example.org", port).await;
    let early = format!("GET /early HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n");
    program.send(upgrade("a.example.org", port) + &early).await;
    assert_eq!(program.answer().await.status, 403);
    assert!(program.rest().await.is_empty());
    assert!(!refusing.text().contains("early"));
    assert_eq!(world.events(1).await.len(), 1);
}
