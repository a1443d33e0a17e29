//! Secrets on their way through the gate.

use hickory_proto::op::ResponseCode;
use stockade_policy::Effect;
use stockade_record::{SecretAct, SecretUse};

use crate::certificate;
use crate::server::Server;
use crate::world::{World, here};

const NAMES: [&str; 2] = ["api.example.org", "other.example.org"];
const VALUE: &str = "sk-8d1F5a7C3e9B2f6A4c0D";

/// Answers with the head of the request.
fn echo(head: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nX-Echo: yes\r\nContent-Length: {}\r\n\r\n{head}", head.len())
}

fn in_chunks(head: &str) -> String {
    let parts = head.as_bytes().chunks(5);
    let chunk = |part: &[u8]| format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part));
    let body: String = parts.map(chunk).collect();
    format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\nX-Trailer: end\r\n\r\n"
    )
}

fn in_header(head: &str) -> String {
    let line = head.lines().find(|line| line.starts_with("Authorization")).unwrap_or_default();
    format!("HTTP/1.1 200 OK\r\nX-Back: {line}\r\nContent-Length: 0\r\n\r\n")
}

fn in_header_name(head: &str) -> String {
    let (_, rest) = head.split_once("Authorization: Bearer ").unwrap_or_default();
    let value = rest.lines().next().unwrap_or_default();
    format!("HTTP/1.1 200 OK\r\nX-{value}: back\r\nContent-Length: 0\r\n\r\n")
}

fn compressed(_: &str) -> String {
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello".to_owned()
}

/// A server, a gate with a secret for the first name, and the placeholder.
async fn bound(respond: fn(&str) -> String) -> (Server, World, String) {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, respond).await;
    let port = server.port;
    // The gate reads it when it opens.
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, VALUE).unwrap();
    let text = format!(
        "network_allowlist:\n  - {{host: api.example.org, ports: [{port}]}}\n  \
         - {{host: other.example.org, ports: [{port}], inspect: true}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n\
         secrets:\n  - {{name: API_KEY, from: 'file:{}', hosts: [api.example.org], \
         header: Authorization, format: 'Bearer {{}}'}}\n",
        key.display()
    );
    let world = World::opening(&text, here(&NAMES), certificate);
    let held = world.placeholder("API_KEY");
    (server, world, held)
}

fn request(host: &str, port: u16, more: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}:{port}\r\n{more}Connection: close\r\n\r\n")
}

fn misplaced() -> Vec<SecretUse> {
    vec![SecretUse { name: "API_KEY".to_owned(), act: SecretAct::Misplaced }]
}

#[tokio::test]
async fn server_gets_the_value_and_the_program_gets_it_back_redacted() {
    for respond in [echo as fn(&str) -> String, in_chunks, in_header, in_header_name] {
        let (server, world, held) = bound(respond).await;
        let more = format!("Authorization: Bearer {held}\r\n");
        let asked = request("api.example.org", server.port, &more);
        let answer = world.ask_tls("api.example.org", server.port, &asked).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(server.text().contains(&format!("Authorization: Bearer {VALUE}\r\n")));
        assert!(server.text().contains("Accept-Encoding: identity\r\n"));
        assert!(!server.text().contains(&held));
        assert!(!answer.contains(VALUE), "{answer}");
        assert!(answer.replace("\r\n", "").contains("**"), "{answer}");
        let event = world.event().await;
        let of = |act| SecretUse { name: "API_KEY".to_owned(), act };
        assert_eq!(event.secrets, [of(SecretAct::Sent), of(SecretAct::Echoed)]);
        let shown = serde_json::to_string(&event).unwrap();
        assert!(!shown.contains(VALUE) && !shown.contains(&held), "{shown}");
    }
}

#[tokio::test]
async fn trailers_pass_on_an_opened_connection() {
    let (server, world, _) = bound(in_chunks).await;
    let asked = request("api.example.org", server.port, "");
    let answer = world.ask_tls("api.example.org", server.port, &asked).await;
    assert!(answer.ends_with("0\r\nX-Trailer: end\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn placeholder_anywhere_else_is_an_alarm_and_a_denial_and_is_not_sent() {
    let (server, world, held) = bound(echo).await;
    let port = server.port;
    let bearer = format!("Authorization: Bearer {held}\r\n");
    let body = format!("{{\"key\": \"{held}\"}}");
    let post = |framing: &str, body: &str| {
        request("api.example.org", port, framing).replace("GET", "POST") + body
    };
    let chunks: String = body
        .as_bytes()
        .chunks(3)
        .map(|part| format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part)))
        .collect();
    let cases = [
        ("other.example.org", request("other.example.org", port, &bearer)),
        ("api.example.org", request("api.example.org", port, &format!("X-Key: {held}\r\n"))),
        (
            "api.example.org",
            request("api.example.org", port, "").replace("GET /", &format!("GET /?k={held}")),
        ),
        ("api.example.org", post(&format!("Content-Length: {}\r\n", body.len()), &body)),
        ("api.example.org", post("Transfer-Encoding: chunked\r\n", &(chunks + "0\r\n\r\n"))),
        ("other.example.org", request("other.example.org", port, &format!("Cookie: a={held}\r\n"))),
    ];
    for (at, (host, asked)) in cases.iter().enumerate() {
        let answer = world.ask_tls(host, port, asked).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{asked}: {answer}");
        assert!(answer.contains("the placeholder of the secret API_KEY was in"), "{answer}");
        let event = world.events(at + 1).await[at].clone();
        assert_eq!((event.verdict, event.secrets), (Effect::Deny, misplaced()), "{asked}");
        assert_eq!(&*event.denial.unwrap().control, "secrets");
    }
    assert!(!server.text().contains(&held), "{}", server.text());
    assert!(!server.text().contains(VALUE));
}

#[tokio::test]
async fn plain_http_never_carries_the_value_and_raises_the_alarm() {
    let (server, world, held) = bound(echo).await;
    let port = server.port;
    let mut program = world.dial("api.example.org", port).await;
    let more = format!("Authorization: Bearer {held}\r\n");
    program.send(request("api.example.org", port, &more)).await;
    let answer = String::from_utf8(program.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(world.event().await.secrets, misplaced());
    assert_eq!(server.seen().connections, 0);
}

#[tokio::test]
async fn compressed_response_of_a_bound_host_is_refused() {
    let (server, world, held) = bound(compressed).await;
    let more = format!("Authorization: Bearer {held}\r\nAccept-Encoding: gzip\r\n");
    let asked = request("api.example.org", server.port, &more);
    let answer = world.ask_tls("api.example.org", server.port, &asked).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("compressed although"), "{answer}");
}

#[tokio::test]
async fn server_that_is_not_verified_never_gets_the_value() {
    let (server, world, held) = bound(echo).await;
    let (config, _) = certificate::signed(&NAMES);
    let impostor = Server::https(config, echo).await;
    let port = impostor.port;
    let text = format!(
        "network_allowlist:\n  - {{host: api.example.org, ports: [{port}]}}\n  \
         - {{host: 127.0.0.1, ports: [{port}]}}\n"
    );
    let secrets = "secrets: [{name: API_KEY, from: 'env:X', hosts: [api.example.org]}]\n";
    world.gate.replace_policy(crate::world::policy(&(text + secrets)));
    let more = format!("Authorization: Bearer {held}\r\n");
    let answer =
        world.ask_tls("api.example.org", port, &request("api.example.org", port, &more)).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(impostor.text(), "");
    drop(server);
}

#[tokio::test]
async fn rotated_value_is_sent_by_the_next_request() {
    let (server, world, held) = bound(echo).await;
    let new = "sk-rotated-0123456789abcdef";
    let more = format!("Authorization: Bearer {held}\r\n");
    let asked = request("api.example.org", server.port, &more);
    world.ask_tls("api.example.org", server.port, &asked).await;
    world.gate.set_secret("API_KEY", new.to_owned()).unwrap();
    let answer = world.ask_tls("api.example.org", server.port, &asked).await;
    let text = server.text();
    assert!(text.find(VALUE).unwrap() < text.find(new).unwrap(), "{text}");
    assert_eq!(text.matches(VALUE).count(), 1);
    assert!(!answer.contains(new), "{answer}");
}

#[tokio::test]
async fn h32_authorization_of_the_program_does_not_travel_to_a_host_with_a_secret() {
    let (server, world, held) = bound(echo).await;
    let own = "Authorization: Bearer of-the-program\r\n";
    let asked = request("other.example.org", server.port, own);
    world.ask_tls("other.example.org", server.port, &asked).await;
    assert!(server.text().contains(own), "it passes where no secret belongs");
    let asked = request("api.example.org", server.port, own);
    let answer = world.ask_tls("api.example.org", server.port, &asked).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let both = format!("{own}Authorization: Bearer {held}\r\n");
    let asked = request("api.example.org", server.port, &both);
    world.ask_tls("api.example.org", server.port, &asked).await;
    assert_eq!(server.text().matches("of-the-program").count(), 1, "{}", server.text());
    assert_eq!(server.text().matches(VALUE).count(), 1);
    let of = |act| SecretUse { name: "API_KEY".to_owned(), act };
    let events = world.events(3).await;
    assert_eq!(events[1].secrets, [of(SecretAct::Dropped)]);
    let acts = [of(SecretAct::Sent), of(SecretAct::Dropped), of(SecretAct::Echoed)];
    assert_eq!(events[2].secrets, acts);
}

#[tokio::test]
async fn placeholder_in_the_name_of_a_host_is_an_alarm_in_any_case_and_is_not_resolved() {
    let (server, world, held) = bound(echo).await;
    let port = server.port;
    assert_eq!(world.code("other.example.org").await, ResponseCode::NoError);
    let mut seen = 0;
    for text in [held.clone(), held.to_lowercase()] {
        let name = format!("{text}.example.org");
        assert_eq!(world.code(&name).await, ResponseCode::NXDomain);
        let mut program = world.proxy();
        program.send(format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n")).await;
        assert_eq!(program.answer().await.status, 403);
        let mut program = world.proxy();
        let authority = format!("{name}:{port}");
        let asked = format!("GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        program.send(asked).await;
        assert_eq!(program.answer().await.status, 403);
        let mut program = world.proxy();
        let length = u8::try_from(name.len()).unwrap();
        let socks = [&[5, 1, 0, 5, 1, 0, 3, length], name.as_bytes(), &[1, 0xbb]].concat();
        program.send(socks).await;
        assert_eq!(program.exactly(4).await, [5, 0, 5, 2]);
        for event in &world.events(seen + 4).await[seen..] {
            assert_eq!(event.secrets, misplaced(), "{event:?}");
            let denial = event.denial.clone().unwrap();
            assert!(denial.why.ends_with("was in the name of the host"), "{denial:?}");
        }
        seen += 4;
    }
    assert_eq!(world.dialled(), []);
}
