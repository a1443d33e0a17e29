//! HTTP/2 on opened connections: bounds, and servers whose answers have two readings.

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::certificate;
use crate::http2::{ask, block, client, frame, policy, request};
use crate::opened::hello;
use crate::server::Server;
use crate::world::{World, here, within};

const NAMES: [&str; 1] = ["api.example.org"];

async fn answered(respond: fn(&str) -> String) -> (Server, World) {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, respond).await;
    let text = policy(server.port, "inspect: true");
    let world = World::opening(&text, here(&NAMES), certificate);
    (server, world)
}

#[tokio::test]
async fn heads_with_too_many_fields_or_bytes_reach_no_server() {
    let (server, world) = answered(hello).await;
    let port = server.port;
    let mut client = client(&world, port).await;
    let mut many = request(port, "/many");
    for number in 0..150 {
        let name = hyper::header::HeaderName::try_from(format!("x-{number}")).unwrap();
        many.headers_mut().insert(name, "1".parse().unwrap());
    }
    assert_eq!(ask(&mut client, many).await.0, 431);
    let mut long = request(port, "/long");
    long.headers_mut().insert("x-long", "y".repeat(70_000).parse().unwrap());
    let answer = within(client.send_request(long)).await;
    let status = answer.map_or(431, |answer| answer.status().as_u16());
    assert_eq!(status, 431);
    assert_eq!(server.text(), "");
    let mut client = crate::http2::client(&world, port).await;
    assert_eq!(ask(&mut client, request(port, "/")).await.0, 200, "an ordinary head passes");
}

#[tokio::test]
async fn streams_beyond_the_announced_limit_are_refused() {
    let (server, world) = answered(|_| String::new()).await;
    let port = server.port;
    let mut stream = world.dial_two("api.example.org", port).await;
    let authority = format!("api.example.org:{port}");
    let fields = block(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &authority),
        (":path", "/waits"),
    ]);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..120 {
        bytes.extend(frame(1, 5, 2 * number + 1, &fields));
    }
    within(stream.write_all(&bytes)).await.unwrap();
    within(stream.flush()).await.unwrap();
    let (mut limit, mut refused) = (None, 0);
    while refused < 20 {
        let mut head = [0; 9];
        within(stream.read_exact(&mut head)).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        within(stream.read_exact(&mut payload)).await.unwrap();
        match head[3] {
            // SETTINGS_MAX_CONCURRENT_STREAMS.
            4 => {
                let of = |setting: &[u8]| (setting[..2] == [0, 3]).then(|| setting[5]);
                limit = limit.or_else(|| payload.chunks(6).find_map(of));
            }
            // RST_STREAM with REFUSED_STREAM.
            3 => {
                assert_eq!(payload, [0, 0, 0, 7]);
                refused += 1;
            }
            _ => {}
        }
    }
    assert_eq!((limit, refused), (Some(100), 20));
}

/// Answers that one client could read as two.
#[tokio::test]
async fn ambiguous_answers_of_a_server_of_http1_become_502_over_http2() {
    const SMUGGLED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
    fn two_lengths(_: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n{SMUGGLED}")
    }
    fn both(_: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"
        )
    }
    fn early(_: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n{SMUGGLED}")
    }
    fn coding(_: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n{SMUGGLED}")
    }
    for (respond, first) in [
        (two_lengths as fn(&str) -> String, 502),
        (both, 502),
        (coding, 502),
        // The answer itself is valid; what follows it belongs to no request.
        (early, 200),
    ] {
        let (server, world) = answered(respond).await;
        let port = server.port;
        let mut client = client(&world, port).await;
        for _ in 0..2 {
            let answer = within(client.send_request(request(port, "/"))).await.unwrap();
            let status = answer.status().as_u16();
            let body = within(answer.into_body().collect()).await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            let body = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(status, first, "{body}");
            assert!(!body.contains("smuggled"), "{body}");
        }
    }
}

/// A body in pieces, each of which the server has before the next is sent.
#[tokio::test]
async fn pieces_of_a_body_pass_over_http2_before_its_end() {
    let (config, certificate) = certificate::signed(&NAMES);
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let server = Server::start(move |stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut buffer = vec![0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..read]));
                let has = |end: &[u8]| seen.borrow().bytes.ends_with(end);
                if has(b"0\r\n\r\n") {
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        }
    })
    .await;
    let port = server.port;
    let world = World::opening(&policy(port, "inspect: true"), here(&NAMES), certificate);
    let stream = world.dial_two("api.example.org", port).await;
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut client, connection) =
        within(hyper::client::conn::http2::handshake(executor, io)).await.unwrap();
    tokio::spawn(connection);
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes>::new(1);
    let (parts, _) = request(port, "/upload").into_parts();
    let mut asked = hyper::Request::from_parts(parts, body);
    *asked.method_mut() = hyper::Method::POST;
    let answer = tokio::spawn(async move { client.send_request(asked).await });
    for piece in ["one", "two", "three"] {
        sender.send_data(Bytes::from(piece)).await.unwrap();
        server.until(piece).await;
    }
    drop(sender);
    let answer = within(answer).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
}
