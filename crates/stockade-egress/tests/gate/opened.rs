//! Connections whose TLS ends at the gate.

use stockade_policy::Effect;
use stockade_record::{Inspection, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::certificate;
use crate::server::Server;
use crate::world::{World, here, within};

const NAMES: [&str; 2] = ["api.example.org", "other.example.org"];

pub(crate) fn hello(_: &str) -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned()
}

/// A server, and a gate that allows `GET /repos/**` of one name.
async fn only_repos() -> (Server, World) {
    opened("methods: [GET], paths: ['/repos/**']").await
}

/// A server, and a gate that opens connections to it.
async fn opened(conditions: &str) -> (Server, World) {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, hello).await;
    let port = server.port;
    let text = format!(
        "network_allowlist:\n  - {{host: api.example.org, ports: [{port}], {conditions}}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n"
    );
    (server, World::opening(&text, here(&NAMES), certificate))
}

fn get(path: &str, port: u16) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: api.example.org:{port}\r\nConnection: close\r\n\r\n")
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn allowed_request_reaches_the_server_and_its_event_has_method_path_and_status() {
    let (server, world) = only_repos().await;
    let answer =
        world.ask_tls("api.example.org", server.port, &get("/repos/a?x=1", server.port)).await;
    assert!(answer.ends_with("hello"), "{answer}");
    assert!(server.text().starts_with("GET /repos/a?x=1 HTTP/1.1\r\n"), "{}", server.text());
    let event = world.event().await;
    assert_eq!((event.via, event.inspection), (Via::Transparent, Inspection::Opened));
    assert_eq!((event.method.as_deref(), event.path.as_deref()), (Some("GET"), Some("/repos/a")));
    assert_eq!((event.status, event.verdict), (Some(200), Effect::Allow));
    assert_eq!(event.host, "api.example.org");
    assert!(event.sent_bytes > 0 && event.received_bytes > 0, "{event:?}");
}

#[tokio::test]
async fn other_methods_and_paths_are_answered_403_with_the_rule_and_the_remedy() {
    let (server, world) = only_repos().await;
    let port = server.port;
    assert_eq!(
        status(&world.ask_tls("api.example.org", port, &get("/repos/a", port)).await),
        "200"
    );
    let before = server.seen().bytes.len();
    for (request, why) in [
        (get("/admin", port), "add `/admin` to the paths"),
        (get("/repos/a", port).replace("GET", "POST"), "add POST to the methods"),
    ] {
        let answer = world.ask_tls("api.example.org", port, &request).await;
        assert_eq!(status(&answer), "403", "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["control"], "network_requests");
        assert!(body["rule"].as_str().unwrap().starts_with("p.yaml:2:"), "{body}");
        assert!(body["how_to_allow"].as_str().unwrap().contains(why), "{body}");
    }
    assert_eq!(server.seen().bytes.len(), before, "nothing of it was sent");
}

#[tokio::test]
async fn paths_are_normalized_once_judged_and_sent_in_that_form() {
    let (server, world) = only_repos().await;
    let port = server.port;
    for (path, sent) in [
        ("/repos/a", "/repos/a"),
        ("/%72epos/%61", "/repos/a"),
        ("//repos//a", "/repos/a"),
        ("/repos/./a", "/repos/a"),
        ("/admin/../repos/a", "/repos/a"),
        ("/repos/b/../a", "/repos/a"),
        ("/repos/%c3%a9", "/repos/%C3%A9"),
    ] {
        let answer = world.ask_tls("api.example.org", port, &get(path, port)).await;
        assert_eq!(status(&answer), "200", "{path}");
        let text = server.text();
        let last = text.lines().rfind(|line| line.starts_with("GET ")).unwrap();
        assert_eq!(last, format!("GET {sent} HTTP/1.1"), "{path}");
    }
    let before = server.seen().bytes.len();
    for path in [
        "/repos/../admin",
        "/repos/%2e%2e/admin",
        "/repos/.%2E/admin",
        "/repos/%2e%2e%2fadmin",
        "/repos/..%5cadmin",
        "/repos/%252e%252e/admin",
        "/repos/..;/admin",
        "/repos/a%00b",
        "/repos/%c0%ae%c0%ae/admin",
        "/Repos/a",
        "/REPOS/a",
        "/repos\\..\\admin",
        "/repos/a#b",
        "repos/a",
        "/",
        "*",
    ] {
        let answer = world.ask_tls("api.example.org", port, &get(path, port)).await;
        assert!(["400", "403"].contains(&status(&answer)), "{path}: {answer}");
    }
    assert_eq!(server.seen().bytes.len(), before, "nothing of it was sent");
}

#[tokio::test]
async fn every_request_on_a_connection_is_judged_and_a_pipelined_one_too() {
    let (server, world) = only_repos().await;
    let port = server.port;
    let keep = |path: &str| get(path, port).replace("Connection: close\r\n", "");
    let all = [keep("/repos/1"), keep("/repos/2"), keep("/admin"), keep("/repos/4")].concat();
    let answer = world.ask_tls("api.example.org", port, &all).await;
    assert_eq!(answer.matches("200 OK").count(), 2, "{answer}");
    assert_eq!(answer.matches("403 Forbidden").count(), 1, "{answer}");
    let text = server.text();
    assert!(text.contains("/repos/2") && !text.contains("admin") && !text.contains("/repos/4"));
    let events = world.events(3).await;
    assert_eq!(
        events.iter().map(|event| event.connection).collect::<Vec<_>>(),
        [events[0].connection; 3]
    );
    assert_eq!(events[2].path.as_deref(), Some("/admin"));
    assert_eq!(server.seen().connections, 1, "the connection to the server was kept");
}

#[tokio::test]
async fn second_request_on_a_kept_connection_is_judged() {
    let (server, world) = only_repos().await;
    let port = server.port;
    let mut stream = world.dial_tls("api.example.org", port).await;
    let mut buffer = vec![0; 4096];
    for (path, status) in [("/repos/1", "200"), ("/admin", "403")] {
        let request = get(path, port).replace("Connection: close\r\n", "");
        within(stream.write_all(request.as_bytes())).await.unwrap();
        let read = within(stream.read(&mut buffer)).await.unwrap();
        let answer = String::from_utf8_lossy(&buffer[..read]).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(!server.text().contains("admin"));
}

#[tokio::test]
async fn another_host_in_the_request_than_in_tls_is_refused() {
    let (server, world) = only_repos().await;
    let port = server.port;
    for host in ["other.example.org", "api.example.org:1", "127.0.0.1"] {
        let request = get("/repos/a", port).replace(&format!("api.example.org:{port}"), host);
        let answer = world.ask_tls("api.example.org", port, &request).await;
        assert_eq!(status(&answer), "400", "{answer}");
    }
    for line in ["GET http://api.example.org/repos/a", "GET https://api.example.org/repos/a"] {
        let request = get("/repos/a", port).replace("GET /repos/a", line);
        let answer = world.ask_tls("api.example.org", port, &request).await;
        assert_eq!(status(&answer), "400", "{answer}");
    }
    assert_eq!(server.text(), "");
}

#[tokio::test]
async fn inspected_host_is_recorded_and_everything_passes_as_it_was_written() {
    let (server, world) = opened("inspect: true").await;
    let port = server.port;
    let answer = world.ask_tls("api.example.org", port, &get("/a//../%61;b", port)).await;
    assert_eq!(status(&answer), "200");
    assert!(server.text().starts_with("GET /a//../%61;b HTTP/1.1\r\n"));
    assert_eq!(world.event().await.inspection, Inspection::Opened);
}

#[tokio::test]
async fn server_that_this_machine_does_not_trust_is_a_named_denial() {
    let (config, _) = certificate::signed(&NAMES);
    let (_, other) = certificate::signed(&NAMES);
    let server = Server::https(config, hello).await;
    let port = server.port;
    let text = format!(
        "network_allowlist:\n  - {{host: api.example.org, ports: [{port}], inspect: true}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n"
    );
    let world = World::opening(&text, here(&NAMES), other);
    let answer = world.ask_tls("api.example.org", port, &get("/", port)).await;
    assert_eq!(status(&answer), "403", "{answer}");
    assert!(answer.contains("the certificate of the server is not valid"), "{answer}");
    assert_eq!(server.text(), "", "no request reached it");
    let denial = world.event().await.denial.unwrap();
    assert_eq!(&*denial.control, "network_requests");
}

#[tokio::test]
async fn program_that_pins_a_certificate_is_a_named_denial() {
    let (server, world) = only_repos().await;
    let program = world.dial("api.example.org", server.port).await;
    let (_, pinned) = certificate::server(&NAMES);
    let connector =
        tokio_rustls::TlsConnector::from(std::sync::Arc::new(certificate::client(pinned)));
    let name = tokio_rustls::rustls::pki_types::ServerName::try_from("api.example.org").unwrap();
    assert!(within(connector.connect(name, program.stream)).await.is_err());
    let denial = world.event().await.denial.unwrap();
    assert!(denial.why.contains("did not accept the certificate of this session"), "{denial:?}");
    assert!(denial.how_to_allow.contains("SSL_CERT_FILE"), "{denial:?}");
    assert_eq!(server.seen().bytes.len(), 0);
}

#[tokio::test]
async fn tunnel_through_the_proxy_is_opened_too() {
    let (server, world) = only_repos().await;
    let port = server.port;
    let mut program = world.proxy();
    program.send(format!("CONNECT api.example.org:{port} HTTP/1.1\r\n\r\n")).await;
    assert!(program.head().await.starts_with("HTTP/1.1 200 "));
    let mut stream = within(world.tls(program, "api.example.org")).await.unwrap();
    within(stream.write_all(get("/admin", port).as_bytes())).await.unwrap();
    let mut bytes = Vec::new();
    let _ = within(stream.read_to_end(&mut bytes)).await;
    assert!(bytes.starts_with(b"HTTP/1.1 403 "), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(world.event().await.via, Via::Connect);
}

#[tokio::test]
async fn other_hosts_pass_through_untouched() {
    let (server, world) = opened("inspect: true").await;
    let pem = world.gate.authorities().unwrap();
    assert!(pem.contains("BEGIN CERTIFICATE") && !pem.contains("PRIVATE"));
    let plain = World::new(&crate::world::opens(server.port, &NAMES, ""), here(&NAMES));
    assert_eq!(plain.gate.authorities(), None, "a session that opens nothing has no authority");
}
