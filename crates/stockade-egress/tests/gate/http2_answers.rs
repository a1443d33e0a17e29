//! Responses to programs of HTTP/2: the same as to those of HTTP/1.1.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::certificate;
use crate::http2::{ask, block, client, frame, policy, request};
use crate::opened::hello;
use crate::server::Server;
use crate::world::{World, here, within};

const NAMES: [&str; 1] = ["api.example.org"];

async fn opened(conditions: &str, respond: fn(&str) -> String) -> (Server, World) {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, respond).await;
    let world = World::opening(&policy(server.port, conditions), here(&NAMES), certificate);
    (server, world)
}

fn over_http1(line: &str, port: u16) -> String {
    format!("{line} HTTP/1.1\r\nHost: api.example.org:{port}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn refusal_of_a_head_has_no_body() {
    let (server, world) = opened("methods: [GET], paths: ['/a']", hello).await;
    let port = server.port;
    let mut client = client(&world, port).await;
    let mut head = request(port, "/a");
    *head.method_mut() = Method::HEAD;
    let answer = within(client.send_request(head)).await.unwrap();
    assert_eq!(answer.status(), 403);
    let length: usize = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
    assert!(length > 100, "it is that of the body that a GET would have got");
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body, Bytes::new());
    for line in ["HEAD /a", "HEAD /a;b"] {
        let answer = world.ask_tls("api.example.org", port, &over_http1(line, port)).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{line}: {answer}");
        assert!(answer.contains("Content-Length: "), "{line}: {answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{line}: {answer}");
    }
    let unparsed = over_http1("HEAD /a", port).replace("\r\nConnection", "\nConnection");
    let answer = world.ask_tls("api.example.org", port, &unparsed).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!(server.text(), "");
}

#[tokio::test]
async fn refusal_of_a_head_without_tls_has_no_body() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&policy(port, "methods: [GET]"), here(&NAMES));
    let mut program = world.dial("api.example.org", port).await;
    program.send(over_http1("HEAD /a", port)).await;
    let answer = String::from_utf8(program.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    let mut program = world.proxy();
    program
        .send(b"HEAD http://other.example.org/ HTTP/1.1\r\nHost: other.example.org\r\n\r\n")
        .await;
    let answer = String::from_utf8(program.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn path_that_no_rule_can_judge_is_refused_with_its_remedy() {
    let (server, world) = opened("methods: [GET], paths: ['/**']", hello).await;
    let port = server.port;
    let mut client = client(&world, port).await;
    for (path, remedy) in [
        ("/x;y", "use a path without `;`"),
        ("/p%2fq", "use a path whose segments contain no slash"),
        ("/%zz", "write a percent sign itself as `%25`"),
    ] {
        let (status, body) = ask(&mut client, request(port, path)).await;
        assert_eq!(status, 400, "{path}");
        let one = over_http1(&format!("GET {path}"), port);
        let one = world.ask_tls("api.example.org", port, &one).await;
        for body in [body.as_str(), one.split("\r\n\r\n").nth(1).unwrap_or_default()] {
            let denial: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(denial["how_to_allow"], remedy, "{path}");
            assert!(denial["why"].as_str().unwrap().starts_with("the path "), "{denial}");
        }
    }
    assert_eq!(server.text(), "");
}

/// A request with these pseudo-header fields and fields; its status as the first field of the
/// response, in the index of the static table, or zero.
async fn status_of(world: &World, port: u16, fields: &[(&str, &str)]) -> (bool, Vec<u8>) {
    let mut stream = world.dial_two("api.example.org", port).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    bytes.extend(frame(1, 5, 1, &block(fields)));
    within(stream.write_all(&bytes)).await.unwrap();
    within(stream.flush()).await.unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let has = |part: &[u8]| seen.windows(part.len()).any(|at| at == part);
        if has(b"hello") || has(b"how_to_allow") {
            return (has(b"hello"), seen);
        }
        match within(stream.read(&mut buffer)).await {
            Ok(read @ 1..) => seen.extend_from_slice(&buffer[..read]),
            _ => return (false, seen),
        }
    }
}

#[tokio::test]
async fn host_field_in_place_of_the_authority_names_the_host_over_http2() {
    let (server, world) = opened("inspect: true", hello).await;
    let port = server.port;
    let own = format!("api.example.org:{port}");
    let base = [(":method", "GET"), (":scheme", "https"), (":path", "/by-host")];
    let with = |more: &[(&'static str, &str)]| -> Vec<(String, String)> {
        let all = base.iter().chain(more.iter());
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    for (fields, passes) in [
        (with(&[("host", own.as_str())]), true),
        (with(&[]), false),
        (with(&[("host", "other.example.org")]), false),
        (with(&[("host", own.as_str()), ("host", own.as_str())]), false),
    ] {
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (passed, seen) = status_of(&world, port, &fields).await;
        let seen = String::from_utf8_lossy(&seen);
        assert_eq!(passed, passes, "{fields:?} {seen}");
        assert!(passes || seen.contains("name the host of the connection"), "{fields:?} {seen}");
    }
    assert_eq!(server.text().matches("/by-host").count(), 1, "{}", server.text());
}

/// What a server answers, by the path.
fn odd(head: &str) -> String {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path {
        "/long" => {
            format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(70_000))
        }
        "/bare" => "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello".to_owned(),
        "/extension" => format!("{chunked}5;a=b\r\nhello\r\n0\r\n\r\n"),
        "/almost" => format!(
            "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 5\r\n\r\nhello",
            "x".repeat(12_000)
        ),
        _ => format!("{chunked}5\r\nhello\r\n0\r\n\r\n"),
    }
}

#[tokio::test]
async fn limits_for_responses_do_not_depend_on_the_version_of_the_program() {
    let (server, world) = opened("inspect: true", odd).await;
    let port = server.port;
    for (path, passes) in
        [("/long", false), ("/bare", false), ("/extension", false), ("/almost", true), ("/", true)]
    {
        let mut two = client(&world, port).await;
        let answer = within(two.send_request(request(port, path))).await.unwrap();
        let status = answer.status();
        let body = within(answer.into_body().collect()).await.map(|body| body.to_bytes());
        let two = status == 200 && body.is_ok_and(|body| body == "hello");
        let answer =
            world.ask_tls("api.example.org", port, &over_http1(&format!("GET {path}"), port)).await;
        let one = answer.starts_with("HTTP/1.1 200 ")
            && (answer.ends_with("hello") || answer.ends_with("hello\r\n0\r\n\r\n"));
        assert_eq!((one, two), (passes, passes), "{path}: {status} {answer:.200}");
    }
    let mut two = client(&world, port).await;
    let (status, body) = ask(&mut two, request(port, "/long")).await;
    assert_eq!(status, 502, "{body}");
    assert!(body.contains("the head is longer than 64 KiB"), "{body}");
}

#[tokio::test]
async fn head_and_get_share_a_connection_to_a_server_of_http1() {
    let (server, world) = opened("inspect: true", |head| {
        let body = if head.starts_with("HEAD ") { "" } else { "hello" };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}")
    })
    .await;
    let mut client = client(&world, server.port).await;
    for method in [Method::GET, Method::HEAD, Method::GET, Method::HEAD] {
        let uri = format!("https://api.example.org:{}/", server.port);
        let asked = Request::builder().method(&method).uri(uri).body(Full::default()).unwrap();
        let (status, body) = ask(&mut client, asked).await;
        assert_eq!(
            (status, body.as_str()),
            (200, if method == Method::GET { "hello" } else { "" })
        );
    }
    assert_eq!(server.seen().connections, 1);
}
