//! Plain HTTP, transparent and through the proxy.

use stockade_policy::{Effect, Host};
use stockade_provider::Destination;
use stockade_record::{Inspection, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::Server;
use crate::world::{World, here, opens, short_times};

const NAMES: [&str; 2] = ["a.example.org", "b.example.org"];

fn world(port: u16) -> World {
    World::new(&opens(port, &["a.example.org"], ""), here(&NAMES))
}

#[tokio::test]
async fn each_request_of_a_kept_connection_is_judged_and_recorded() {
    let server = Server::hello().await;
    let port = server.port;
    let world = world(port);
    let mut program = world.dial("a.example.org", port).await;
    for path in ["/one?token=secret", "/two"] {
        program.send(format!("GET {path} HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
        assert_eq!(program.answer().await.body, b"hello");
    }
    program.send(format!("GET /three HTTP/1.1\r\nHost: b.example.org:{port}\r\n\r\n")).await;
    assert_eq!(program.answer().await.status, 400);
    let events = world.events(3).await;
    let recorded: Vec<_> =
        events.iter().map(|event| (event.path.as_deref(), event.status, event.verdict)).collect();
    assert_eq!(
        recorded,
        [
            (Some("/one"), Some(200), Effect::Allow),
            (Some("/two"), Some(200), Effect::Allow),
            (None, Some(400), Effect::Deny),
        ]
    );
    assert!(events.iter().all(|event| event.connection == events[0].connection));
    assert_eq!((events[0].via, events[0].inspection), (Via::Transparent, Inspection::Requests));
    assert!(events[0].sent_bytes > 20 && events[0].received_bytes > 20);
    assert_eq!(server.seen().connections, 1);
    assert!(!server.text().contains("three"));
}

#[tokio::test]
async fn host_that_the_wall_knows_by_name_needs_no_synthetic_address() {
    let server = Server::hello().await;
    let port = server.port;
    let world = world(port);
    let status = async |name: &str| {
        let host = Host::parse(name).unwrap();
        let mut program = world.open(Destination::Host { host, port });
        program.send(format!("GET / HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n")).await;
        program.answer().await.status
    };
    assert_eq!(status("a.example.org").await, 200);
    assert_eq!(status("b.example.org").await, 403);
    // A synthetic address stands for a name here too; this one has no name.
    assert_eq!(status("127.64.0.200").await, 403);
    let events = world.events(3).await;
    assert!(events.iter().all(|event| event.via == Via::Transparent));
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn proxy_takes_whole_addresses_and_changes_hosts_between_requests() {
    let (one, two) = (Server::hello().await, Server::hello().await);
    let text = format!(
        "network_allowlist: [{{host: a.example.org, ports: [{0}]}}, \
         {{host: b.example.org, ports: [{1}]}}, {{host: 127.0.0.1, ports: [{0}, {1}]}}]",
        one.port, two.port
    );
    let world = World::new(&text, here(&NAMES));
    let mut program = world.proxy();
    let request = |host: &str, port: u16| {
        format!(
            "GET http://{host}:{port}/x HTTP/1.1\r\nHost: {host}:{port}\r\n\
             Proxy-Authorization: secret\r\nProxy-Connection: keep-alive\r\nX-Kept: yes\r\n\r\n"
        )
    };
    for (host, port) in [("a.example.org", one.port), ("b.example.org", two.port)] {
        program.send(request(host, port)).await;
        assert_eq!(program.answer().await.body, b"hello");
    }
    let expected =
        format!("GET /x HTTP/1.1\r\nHost: a.example.org:{}\r\nX-Kept: yes\r\n\r\n", one.port);
    assert_eq!(one.text(), expected);
    program.send(request("a.example.org", two.port)).await;
    let answer = program.answer().await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["target"], format!("a.example.org:{}", two.port));
    assert_eq!(world.events(3).await[0].via, Via::Http);
}

#[tokio::test]
async fn requests_that_the_proxy_cannot_serve_get_400_with_reason() {
    let server = Server::hello().await;
    let port = server.port;
    let world = world(port);
    let ask = async |text: String| {
        let mut program = world.proxy();
        program.send(text).await;
        let answer = program.answer().await;
        let why = (answer.status != 200).then(|| answer.json()["why"].to_string());
        (answer.status, why)
    };
    let fields = format!("HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n");
    assert_eq!(ask(format!("GET http://a.example.org:{port}/ {fields}")).await, (200, None));
    let (status, why) = ask(format!("GET / {fields}")).await;
    assert_eq!((status, why.unwrap().contains("whole http:// address")), (400, true));
    let (status, why) = ask(format!("GET https://a.example.org:{port}/ {fields}")).await;
    assert_eq!((status, why.unwrap().contains("CONNECT")), (400, true));
    let (status, _) = ask(format!("GET http://b.example.org:{port}/ {fields}")).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn redirects_are_forwarded_and_never_followed() {
    let answer = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\
                  Content-Length: 0\r\n\r\n";
    let server = Server::http(answer).await;
    let world = world(server.port);
    let mut program = world.dial("a.example.org", server.port).await;
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{}\r\n\r\n", server.port)).await;
    assert_eq!(program.head().await, answer);
    assert_eq!(world.event().await.status, Some(302));
    let mut follows = world.proxy();
    follows.send("GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n").await;
    assert_eq!(follows.answer().await.status, 403);
}

#[tokio::test]
async fn bodies_of_every_kind_pass_both_ways() {
    // Returns the request as the body of the response.
    let server = Server::start(|mut stream, _| async move {
        let mut held = Vec::new();
        let mut buffer = [0; 4096];
        while !held.ends_with(b"END") && !held.ends_with(b"0\r\n\r\n") {
            let read = stream.read(&mut buffer).await.unwrap_or(0);
            if read == 0 {
                break;
            }
            held.extend_from_slice(&buffer[..read]);
        }
        let start = held.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
        let body = String::from_utf8_lossy(&held[start..]).replace("\r\n", "|");
        let answer = format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\nX-Trailer: 1\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.read(&mut buffer).await;
    })
    .await;
    let port = server.port;
    let world = world(port);
    // The server responds after the body, so the body must pass before any response.
    let send = async |fields: &str, body: &str, expected: &str| {
        let mut program = world.dial("a.example.org", port).await;
        let head = format!("POST / HTTP/1.1\r\nHost: a.example.org:{port}\r\n{fields}\r\n\r\n");
        program.send(head + body).await;
        assert_eq!(program.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
        let head = program.head().await;
        assert_eq!(head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let framed = format!("{:x}\r\n{expected}\r\n0\r\n\r\n", expected.len());
        assert_eq!(program.exactly(framed.len()).await, framed.as_bytes());
    };
    send("Content-Length: 7", "bodyEND", "bodyEND").await;
    send("Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\nA: b\r\n\r\n", "4|body|0||").await;
}

#[tokio::test]
async fn response_without_a_length_ends_with_its_connection() {
    let server = Server::start(|mut stream, _| async move {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end").await;
    })
    .await;
    let world = world(server.port);
    let mut program = world.dial("a.example.org", server.port).await;
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{}\r\n\r\n", server.port)).await;
    let answer = String::from_utf8(program.rest().await).unwrap();
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
}

#[tokio::test]
async fn server_that_closed_between_requests_is_dialled_again() {
    let server = Server::start(|mut stream, _| async move {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    })
    .await;
    let port = server.port;
    let world = world(port);
    let mut program = world.dial("a.example.org", port).await;
    for _ in 0..20 {
        program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
        assert_eq!(program.answer().await.status, 200);
    }
    assert_eq!(server.seen().connections, 20);
}

#[tokio::test]
async fn malformed_response_becomes_502() {
    for nonsense in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 1\n\n",
        "SSH-2.0-x\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n",
        "",
    ] {
        let server = Server::start(move |mut stream, _| async move {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(nonsense.as_bytes()).await;
        })
        .await;
        let world = world(server.port);
        let mut program = world.dial("a.example.org", server.port).await;
        let head = format!("GET / HTTP/1.1\r\nHost: a.example.org:{}\r\n\r\n", server.port);
        program.send(head).await;
        assert_eq!(program.answer().await.status, 502, "{nonsense}");
        let event = world.event().await;
        assert_eq!((event.verdict, event.status), (Effect::Allow, Some(502)));
        assert!(event.failure.is_some());
    }
}

#[tokio::test]
async fn methods_and_paths_are_judged_where_the_policy_names_them() {
    let server = Server::hello().await;
    let port = server.port;
    let text = format!(
        "network_allowlist: [{{host: a.example.org, ports: [{port}], methods: [GET], \
         paths: ['/repos/**']}}, {{host: 127.0.0.1, ports: [{port}]}}]"
    );
    let world = World::with_times(&text, here(&NAMES), short_times());
    let ask = async |line: &str| {
        let mut program = world.dial("a.example.org", port).await;
        program.send(format!("{line} HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
        program.answer().await.status
    };
    assert_eq!(ask("GET /repos/x").await, 200);
    assert_eq!(ask("POST /repos/x").await, 403);
    assert_eq!(ask("GET /admin").await, 403);
    for path in ["/repos/%2e%2e/admin", "/repos/../admin"] {
        assert_eq!(ask(&format!("GET {path}")).await, 403, "{path}");
    }
    for path in ["/repos/x;a=b", "/repos/%2fx"] {
        assert_eq!(ask(&format!("GET {path}")).await, 400, "{path}");
    }
    assert_eq!(ask("GET /repos//%78").await, 200);
    assert!(
        server.text().lines().rfind(|line| line.starts_with("GET"))
            == Some("GET /repos/x HTTP/1.1")
    );
    for field in [
        "X-HTTP-Method-Override: DELETE",
        "X_HTTP_METHOD_OVERRIDE: DELETE",
        "X-Original-URL: /admin",
        "X-Rewrite-URL: /admin",
    ] {
        let disguised = format!("GET /repos/x HTTP/1.1\r\n{field}");
        let mut program = world.dial("a.example.org", port).await;
        program.send(format!("{disguised}\r\nHost: a.example.org:{port}\r\n\r\n")).await;
        assert_eq!(program.answer().await.status, 400, "{field}");
    }
    assert_eq!(server.text().matches("GET ").count(), 2);
}

#[tokio::test]
async fn response_that_ends_with_its_connection_closes_cleanly() {
    let server = Server::start(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end").await;
    })
    .await;
    let port = server.port;
    let world = World::new(&opens(port, &NAMES, ""), here(&NAMES));
    let mut program = world.dial("a.example.org", port).await;
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    assert!(program.rest().await.ends_with(b"\r\n\r\nuntil the end"));
    // A dropped connection would have been reset, and would accept no more.
    program.send(b"x").await;
}
