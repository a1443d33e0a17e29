//! CONNECT through the proxy.

use stockade_policy::Effect;
use stockade_record::{Inspection, Via};

use crate::server::Server;
use crate::world::{HERE, World, here, opens};

#[tokio::test]
async fn denied_host_gets_403_with_reason() {
    let server = Server::hello().await;
    let names = here(&["a.example.org", "b.example.org"]);
    let world = World::new(&opens(server.port, &["a.example.org"], ""), names);
    let connect = |host: &str| {
        format!("CONNECT {host}:{0} HTTP/1.1\r\nHost: {host}:{0}\r\n\r\n", server.port)
    };
    let mut allowed = world.proxy();
    allowed.send(connect("a.example.org")).await;
    assert_eq!(allowed.head().await, "HTTP/1.1 200 Connection established\r\n\r\n");
    drop(allowed);
    let mut denied = world.proxy();
    denied.send(connect("b.example.org")).await;
    let answer = denied.answer().await;
    assert_eq!(answer.status, 403);
    let line = answer.head.lines().next().unwrap();
    let why = "network_allowlist does not name b.example.org";
    assert_eq!(line, format!("HTTP/1.1 403 Denied by Stockade: {why}"));
    let expected = serde_json::json!({
        "control": "network_hosts",
        "rule": "built in: default",
        "target": format!("b.example.org:{}", server.port),
        "why": why,
        "how_to_allow": format!("add `b.example.org:{}` to network_allowlist", server.port),
    });
    let mut body = answer.json();
    body["rule"] = "built in: default".into();
    assert_eq!(body, expected);
    assert!(denied.rest().await.is_empty());
    let events = world.events(2).await;
    let event = events.iter().find(|event| event.host == "b.example.org").unwrap();
    assert_eq!(event.via, Via::Connect);
    assert_eq!((event.verdict, event.status), (Effect::Deny, Some(403)));
    assert_eq!(event.denial.as_ref().unwrap().why, why);
    assert_eq!(server.seen().connections, 1);
    assert_eq!(world.gate.observed().denials.len(), 1);
}

#[tokio::test]
async fn other_ports_of_an_allowed_host_are_denied() {
    let server = Server::hello().await;
    let world = World::new(&opens(server.port, &["a.example.org"], ""), here(&["a.example.org"]));
    let mut allowed = world.proxy();
    allowed.send(format!("CONNECT a.example.org:{} HTTP/1.1\r\n\r\n", server.port)).await;
    assert!(allowed.head().await.starts_with("HTTP/1.1 200 "));
    for port in [22, 25, 8080] {
        let mut denied = world.proxy();
        denied.send(format!("CONNECT a.example.org:{port} HTTP/1.1\r\n\r\n")).await;
        assert_eq!(denied.answer().await.status, 403, "{port}");
    }
}

#[tokio::test]
async fn ambiguous_authorities_are_refused() {
    let server = Server::hello().await;
    let port = server.port;
    let names = here(&["a.example.org", "evil.example.net"]);
    let world = World::new(&opens(port, &["a.example.org"], ""), names);
    let ask = async |target: &str| {
        let mut program = world.proxy();
        program.send(format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
        program.answer().await.status
    };
    for spelling in ["a.example.org", "A.EXAMPLE.ORG", "a.example.org."] {
        assert_eq!(ask(&format!("{spelling}:{port}")).await, 200, "{spelling}");
    }
    let before = server.seen().connections;
    for target in [
        format!("a.example.org@evil.example.net:{port}"),
        format!("a.example.org:{port}@evil.example.net"),
        format!("evil.example.net#a.example.org:{port}"),
        format!("evil.example.net?a.example.org:{port}"),
        format!("evil.example.net/a.example.org:{port}"),
        format!("evil.example.net\\a.example.org:{port}"),
        format!("a.example.org%00.evil.example.net:{port}"),
        format!("a.example.org..:{port}"),
        format!(".a.example.org:{port}"),
        format!("a..example.org:{port}"),
        format!("2130706433:{port}"),
        format!("0177.0.0.1:{port}"),
        format!("127.1:{port}"),
        format!("[::1%25a.example.org]:{port}"),
        format!("a.example.org:0{port}"),
        format!("a.example.org:+{port}"),
        "a.example.org:".to_owned(),
        "a.example.org".to_owned(),
        "/".to_owned(),
        format!("http://a.example.org:{port}"),
    ] {
        assert_eq!(ask(&target).await, 400, "{target}");
    }
    assert_eq!(server.seen().connections, before);
}

#[tokio::test]
async fn host_field_of_a_connect_must_be_the_same() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&["a.example.org"]));
    let ask = async |fields: &str| {
        let mut program = world.proxy();
        program.send(format!("CONNECT a.example.org:{port} HTTP/1.1\r\n{fields}\r\n")).await;
        program.answer().await.status
    };
    assert_eq!(ask(&format!("Host: a.example.org:{port}\r\n")).await, 200);
    assert_eq!(ask("Host: a.example.org\r\n").await, 200);
    assert_eq!(ask("").await, 200);
    assert_eq!(ask("Host: evil.example.net\r\n").await, 400);
    assert_eq!(ask("Host: a.example.org:1\r\n").await, 400);
    assert_eq!(ask("Host: a.example.org\r\nHost: a.example.org\r\n").await, 400);
}

#[tokio::test]
async fn contents_of_a_tunnel_are_judged_too() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&["a.example.org"]));
    let tunnel = async || {
        let mut program = world.proxy();
        program.send(format!("CONNECT a.example.org:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(program.head().await.starts_with("HTTP/1.1 200 "));
        program
    };
    let mut program = tunnel().await;
    program.send(format!("GET /x?secret HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    assert_eq!(program.answer().await.body, b"hello");
    drop(program);
    let event = world.event().await;
    assert_eq!((event.via, event.inspection), (Via::Connect, Inspection::Requests));
    assert_eq!(event.path.as_deref(), Some("/x"));
    let mut other = tunnel().await;
    other.send(format!("GET / HTTP/1.1\r\nHost: b.example.org:{port}\r\n\r\n")).await;
    assert_eq!(other.answer().await.status, 400);
    let mut bytes = tunnel().await;
    bytes.send(b"SSH-2.0-OpenSSH_9.9\r\n").await;
    assert!(bytes.rest().await.is_empty());
    let denials = world.gate.observed().denials;
    assert!(denials.iter().any(|denial| denial.how_to_allow.contains("`protocol: tcp`")));
}

#[tokio::test]
async fn abandoned_tunnel_is_still_recorded() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&["a.example.org"]));
    let mut program = world.proxy();
    program.send(format!("CONNECT a.example.org:{port} HTTP/1.1\r\n\r\n")).await;
    drop(program);
    let event = world.event().await;
    assert_eq!(world.dialled().len(), 1);
    assert_eq!((event.via, event.verdict), (Via::Connect, Effect::Allow));
    assert_eq!((event.host.as_str(), event.address), ("a.example.org", Some(HERE)));
    assert!(event.failure.is_some());
}

#[tokio::test]
async fn unresolvable_hosts_get_502_with_reason() {
    let server = Server::hello().await;
    let text = opens(server.port, &["a.example.org", "b.example.org"], "");
    let world = World::new(&text, here(&["a.example.org"]));
    let mut program = world.proxy();
    program.send(format!("CONNECT b.example.org:{} HTTP/1.1\r\n\r\n", server.port)).await;
    let answer = program.answer().await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.json()["failure"], "b.example.org does not exist");
    let event = world.event().await;
    assert_eq!(event.verdict, Effect::Allow);
    assert_eq!(event.failure.as_deref(), Some("b.example.org does not exist"));
}
