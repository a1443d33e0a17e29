//! A gate that records what is used.

use std::net::IpAddr;

use stockade_egress::{FixedNames, Learned, Learns};
use stockade_policy::{Effect, Host, Method, Protocol, UrlPath};

use crate::server::Server;
use crate::world::World;

async fn connect(world: &World, authority: &str) -> u16 {
    let mut program = world.proxy();
    program.send(format!("CONNECT {authority} HTTP/1.1\r\n\r\n")).await;
    program.answer().await.status
}

#[tokio::test]
async fn learning_never_reaches_private_own_or_blocked_addresses() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let names = FixedNames::default()
        .answer("private.example.org", &[address("10.0.0.1")], &[])
        .answer("here.example.org", &[address("127.0.0.1")], &[])
        .answer("metadata.example.org", &[address("169.254.169.254")], &[])
        .answer("alias.example.org", &[address("127.0.0.1")], &["metadata.goog"]);
    let world = World::learning("network_blocklist: [blocked.example.org]", names);
    assert!(world.address("anything.example.org").await.is_loopback());
    for authority in [
        "private.example.org:443",
        "here.example.org:443",
        "metadata.example.org:80",
        "metadata.google.internal:80",
        "alias.example.org:443",
        "blocked.example.org:443",
        "127.0.0.1:22",
        "[::1]:22",
        "169.254.169.254:80",
    ] {
        assert_eq!(connect(&world, authority).await, 403, "{authority}");
    }
    // A name without an address shows that the name itself would have passed.
    assert_eq!(connect(&world, "public.example.org:12345").await, 502);
    assert_eq!(world.gate.learned(), []);
    assert_eq!(world.events(10).await[9].verdict, Effect::Audit);
}

#[tokio::test]
async fn used_hosts_are_recorded_with_their_protocol_and_requests_that_can_be_read() {
    let web = Server::hello().await;
    let first = Server::echo("220 ready").await;
    let public: IpAddr = "93.184.216.34".parse().unwrap();
    let names = FixedNames::default().answer("web.example.org", &[public], &[]).answer(
        "mail.example.org",
        &[public],
        &[],
    );
    let world = World::learning("{}", names);
    for _ in 0..2 {
        let mut program = world.dial("web.example.org", web.port).await;
        let port = web.port;
        program.send(format!("GET / HTTP/1.1\r\nHost: web.example.org:{port}\r\n\r\n")).await;
        assert_eq!(program.answer().await.status, 200);
    }
    let mut program = world.dial("mail.example.org", first.port).await;
    assert_eq!(program.exactly(9).await, b"220 ready");
    let mut program = world.dial("mail.example.org", first.port).await;
    program.send(b"\x16\x03\x01\x00\x02\x02\x00").await;
    assert_eq!(program.exactly(9).await, b"220 ready");
    let learned = |host: &str, port, protocol, request| {
        let host = Host::parse(host).unwrap();
        Learned { host, port, protocol, request }
    };
    let get = (Method::parse("GET").unwrap(), UrlPath::parse("/").unwrap());
    assert_eq!(
        world.gate.learned(),
        [
            learned("mail.example.org", first.port, Protocol::Tcp, None),
            learned("web.example.org", web.port, Protocol::Web, Some(get)),
        ]
    );
}

#[tokio::test]
async fn requests_are_learned_with_method_and_path_also_inside_tls() {
    let (config, certificate) = crate::certificate::signed(&["web.example.org"]);
    let secure = Server::https(config, crate::opened::hello).await;
    let plain = Server::hello().await;
    let public: IpAddr = "93.184.216.34".parse().unwrap();
    let names = FixedNames::default().answer("web.example.org", &[public], &[]);
    let world = World::learning_requests(names, certificate);
    let text = |line: &str, port: u16| {
        format!("{line} HTTP/1.1\r\nHost: web.example.org:{port}\r\nConnection: close\r\n\r\n")
    };
    for line in ["GET /repos/./a?x=1", "DELETE /repos/b", "GET /a%2fb"] {
        let asked = text(line, secure.port);
        let answer = world.ask_tls("web.example.org", secure.port, &asked).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let mut program = world.dial("web.example.org", plain.port).await;
    program.send(text("GET /plain", plain.port)).await;
    assert_eq!(program.answer().await.status, 200);
    let learned = |port, request: Option<(&str, &str)>| {
        let request = request
            .map(|(method, path)| (Method::parse(method).unwrap(), UrlPath::parse(path).unwrap()));
        let host = Host::parse("web.example.org").unwrap();
        Learned { host, port, protocol: Protocol::Web, request }
    };
    let mut expected = [
        learned(secure.port, Some(("GET", "/repos/a"))),
        learned(secure.port, Some(("DELETE", "/repos/b"))),
        // No rule can judge an escaped slash.
        learned(secure.port, None),
        learned(plain.port, Some(("GET", "/plain"))),
    ];
    expected.sort();
    assert_eq!(world.gate.learned(), expected);
}

#[tokio::test]
async fn entries_with_conditions_hold_while_learning() {
    for learns in [Learns::Hosts, Learns::Requests] {
        let (config, certificate) = crate::certificate::signed(&["api.example.org"]);
        let server = Server::https(config, crate::opened::hello).await;
        let public: IpAddr = "93.184.216.34".parse().unwrap();
        let literal = "93.184.216.35";
        let names = FixedNames::default().answer("api.example.org", &[public], &[]).answer(
            "alias.example.org",
            &[literal.parse().unwrap()],
            &[],
        );
        let port = server.port;
        let conditions = "protocol: tls, methods: [GET], paths: ['/repos/**'], inspect: true";
        let entry = |host: &str| format!("{{host: {host}, ports: [{port}], {conditions}}}");
        let text =
            format!("network_allowlist: [{}, {}]\n", entry("api.example.org"), entry(literal));
        let world = World::learning_beyond(&text, learns, names, certificate);
        let ask = async |line: &str| {
            let close = "Connection: close\r\n\r\n";
            let asked = format!("{line} HTTP/1.1\r\nHost: api.example.org:{port}\r\n{close}");
            let answer = world.ask_tls("api.example.org", port, &asked).await;
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(ask("GET /repos/a").await, "200", "{learns:?}");
        assert_eq!(ask("DELETE /repos/a").await, "403", "{learns:?}");
        assert_eq!(ask("GET /other").await, "403", "{learns:?}");
        assert_eq!(ask("GET /repos/a%2fb").await, "400", "{learns:?}");
        // Another port of the host is not learned either.
        assert_eq!(connect(&world, "api.example.org:8443").await, 403, "{learns:?}");
        // Nor is the address of an entry by another name.
        let alias = format!("alias.example.org:{port}");
        assert_eq!(connect(&world, &alias).await, 403, "{learns:?}");
        let host = Host::parse("api.example.org").unwrap();
        let get = (Method::parse("GET").unwrap(), UrlPath::parse("/repos/a").unwrap());
        let used = Learned { host, port, protocol: Protocol::Tls, request: Some(get) };
        assert_eq!(world.gate.learned(), [used], "{learns:?}");
        assert!(!server.text().contains("DELETE"), "{}", server.text());
    }
}
