//! TLS that passes through.

use std::sync::Arc;

use stockade_policy::{Effect, Host, Method, UrlPath};
use stockade_provider::Destination;
use stockade_record::{Inspection, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::certificate;
use crate::server::Server;
use crate::world::{Program, World, here, opens, short_times, within};

const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Sends bytes over TLS and returns the response.
async fn over_tls(program: Program, roots: RootCertStore, name: &str) -> std::io::Result<Vec<u8>> {
    let connector = TlsConnector::from(Arc::new(certificate::client(roots)));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut stream = within(connector.connect(name, program.stream)).await?;
    stream.write_all(b"through").await?;
    let mut back = [0; 7];
    within(stream.read_exact(&mut back)).await?;
    Ok(back.to_vec())
}

/// The ClientHello of a real client for a name.
async fn hello(name: &str) -> Vec<u8> {
    let (client, mut server) = tokio::io::duplex(16 * 1024);
    let program = Program { stream: client };
    let name = name.to_owned();
    let sending = tokio::spawn(async move {
        let _ = over_tls(program, RootCertStore::empty(), &name).await;
    });
    let mut bytes = vec![0; 5];
    server.read_exact(&mut bytes).await.unwrap();
    let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
    bytes.resize(5 + length, 0);
    server.read_exact(&mut bytes[5..]).await.unwrap();
    drop(server);
    sending.await.unwrap();
    bytes
}

#[tokio::test]
async fn tls_to_the_allowed_name_passes_unchanged() {
    let names = ["a.example.org", "b.example.org"];
    let (server, roots) = Server::tls(&names).await;
    let world = World::new(&opens(server.port, &["a.example.org"], ""), here(&names));
    let program = world.dial("a.example.org", server.port).await;
    assert_eq!(over_tls(program, roots.clone(), "a.example.org").await.unwrap(), b"through");
    let event = world.event().await;
    assert_eq!((event.via, event.inspection), (Via::Transparent, Inspection::ServerName));
    assert_eq!((event.host.as_str(), event.port), ("a.example.org", Some(server.port)));
    assert_eq!(event.address, Some(crate::world::HERE));
    assert_eq!((event.verdict, event.denial), (Effect::Allow, None));
    assert!(event.sent_bytes > 300 && event.received_bytes > 300);
    assert!(event.rule.starts_with("p.yaml:2:"), "{}", event.rule);
}

#[tokio::test]
async fn another_server_name_is_answered_with_access_denied() {
    let names = ["a.example.org", "b.example.org"];
    let (server, roots) = Server::tls(&names).await;
    let world = World::new(&opens(server.port, &["a.example.org"], ""), here(&names));
    let program = world.dial("a.example.org", server.port).await;
    let error = over_tls(program, roots, "b.example.org").await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    let event = world.event().await;
    assert_eq!(event.verdict, Effect::Deny);
    assert_eq!(event.denial.unwrap().why, "the server name is b.example.org");
    assert_eq!(server.seen().connections, 0);
}

#[tokio::test]
async fn literal_addresses_go_through_the_proxy_without_a_server_name() {
    let (server, roots) = Server::tls(&["127.0.0.1"]).await;
    let port = server.port;
    let world = World::new(&opens(port, &[], ""), here(&[]));
    let mut program = world.proxy();
    program.send(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
    assert!(program.head().await.starts_with("HTTP/1.1 200 "));
    assert_eq!(over_tls(program, roots, "127.0.0.1").await.unwrap(), b"through");
}

#[tokio::test]
async fn segmented_hello_is_reassembled_and_forwarded() {
    let server = Server::echo("").await;
    let names = ["a.example.org"];
    let world = World::new(&opens(server.port, &names, ""), here(&names));
    let whole = hello("a.example.org").await;
    let fragments: Vec<u8> = whole[5..]
        .chunks(7)
        .flat_map(|part| [&[22, 3, 1, 0, part.len() as u8], part].concat())
        .collect();
    for bytes in [whole, fragments] {
        let mut program = world.dial("a.example.org", server.port).await;
        for part in bytes.chunks(3) {
            program.send(part).await;
        }
        assert_eq!(program.exactly(bytes.len()).await, bytes);
    }
    let mut denied = world.dial("a.example.org", server.port).await;
    let other = hello("b.example.org").await;
    let fragments = other[5..].chunks(7);
    for part in fragments {
        denied.try_send([&[22, 3, 1, 0, part.len() as u8], part].concat()).await;
    }
    assert_eq!(denied.rest().await, ALERT);
}

#[tokio::test]
async fn bytes_that_only_start_like_tls_are_refused() {
    let server = Server::echo("").await;
    let names = ["a.example.org"];
    let text = opens(server.port, &names, "");
    let world = World::with_times(&text, here(&names), short_times());
    let mut allowed = world.dial("a.example.org", server.port).await;
    let whole = hello("a.example.org").await;
    allowed.send(&whole).await;
    assert_eq!(allowed.exactly(whole.len()).await, whole);
    let mut without_name = whole.clone();
    let at = without_name.windows(13).position(|part| part == b"a.example.org").unwrap();
    // The type of the extension, nine bytes before the name, becomes an unknown one.
    without_name[at - 9] = 0x7a;
    let half = whole[..whole.len() / 2].to_vec();
    for (bytes, why) in [
        (without_name, "the ClientHello has no server name"),
        (vec![22, 3, 1, 0, 0], "the ClientHello is malformed"),
        (vec![22, 9, 9, 0, 4, 1, 2, 3, 4], "the first bytes are not those of TLS"),
        (half, "the ClientHello is malformed"),
    ] {
        let mut denied = world.dial("a.example.org", server.port).await;
        denied.send(&bytes).await;
        assert_eq!(denied.rest().await, ALERT, "{why}");
        let denials = world.gate.observed().denials;
        assert!(denials.iter().any(|denial| denial.why == why), "{why}: {denials:#?}");
    }
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn protocol_of_an_entry_decides_what_passes() {
    let server = Server::hello().await;
    let names = ["a.example.org"];
    let text = |protocol: &str| {
        format!(
            "network_allowlist: [{{host: a.example.org, ports: [{0}], protocol: {protocol}}}, \
             {{host: 127.0.0.1, ports: [{0}], protocol: tcp}}]",
            server.port
        )
    };
    let request = format!("GET / HTTP/1.1\r\nHost: a.example.org:{}\r\n\r\n", server.port);
    let http = World::new(&text("http"), here(&names));
    let mut program = http.dial("a.example.org", server.port).await;
    program.send(&request).await;
    assert_eq!(program.answer().await.status, 200);
    let mut program = http.dial("a.example.org", server.port).await;
    program.send(hello("a.example.org").await).await;
    assert_eq!(program.rest().await, ALERT);
    let tls = World::new(&text("tls"), here(&names));
    let mut program = tls.dial("a.example.org", server.port).await;
    program.send(&request).await;
    let answer = program.answer().await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["why"], "only tls is allowed there, and this is http");
}

#[tokio::test]
async fn server_that_sends_first_needs_protocol_tcp() {
    let server = Server::echo("220 ready\r\n").await;
    let names = ["a.example.org"];
    let entry = |protocol: &str| {
        format!(
            "network_allowlist: [{{host: a.example.org, ports: [{0}]{protocol}}}, \
             {{host: 127.0.0.1, ports: [{0}], protocol: tcp}}]",
            server.port
        )
    };
    let open = World::new(&entry(", protocol: tcp"), here(&names));
    let mut program = open.dial("a.example.org", server.port).await;
    assert_eq!(program.exactly(11).await, b"220 ready\r\n");
    program.send(b"anything").await;
    assert_eq!(program.exactly(8).await, b"anything");
    let before = server.seen().connections;
    let closed = World::with_times(&entry(""), here(&names), short_times());
    let mut program = closed.dial("a.example.org", server.port).await;
    assert!(program.rest().await.is_empty());
    assert_eq!(server.seen().connections, before);
    let denial = closed.event().await.denial.unwrap();
    assert_eq!(denial.how_to_allow, "give the entry of a.example.org `protocol: tcp`");
}

#[tokio::test]
async fn request_that_the_wall_describes_is_judged_by_method_and_path() {
    let server = Server::hello().await;
    let port = server.port;
    let text = format!(
        "network_allowlist: [{{host: a.example.org, ports: [{port}], methods: [GET], paths: ['/open/**']}}, \
         {{host: 127.0.0.1, ports: [{port}]}}]"
    );
    let world = World::new(&text, here(&["a.example.org"]));
    // TLS that cannot be read: only the description counts.
    let hello = hello("a.example.org").await;
    let opened = async |method: &str, path: &str| {
        let destination = Destination::Request {
            host: Host::parse("a.example.org").unwrap(),
            port,
            method: Method::parse(method).unwrap(),
            path: UrlPath::parse(path).unwrap(),
        };
        let mut program = world.open(destination);
        program.send(hello.clone()).await;
    };
    opened("POST", "/open/a").await;
    opened("GET", "/closed").await;
    opened("GET", "/open/a").await;
    let events = world.events(3).await;
    let judged = |method: &str, path: &str| {
        let found = events.iter().find(|event| {
            event.method.as_deref() == Some(method) && event.path.as_deref() == Some(path)
        });
        found.map(|event| {
            (event.verdict.allows(), event.denial.as_ref().map(|it| it.control.clone()))
        })
    };
    let refused = || Some((false, Some("network_requests".into())));
    assert_eq!(judged("POST", "/open/a"), refused());
    assert_eq!(judged("GET", "/closed"), refused());
    assert_eq!(judged("GET", "/open/a"), Some((true, None)));
}
