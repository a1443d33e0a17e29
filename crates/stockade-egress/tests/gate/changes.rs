//! Changing rules, closing gates, failing records.

use hickory_proto::op::ResponseCode;
use stockade_policy::Effect;
use stockade_provider::Gateway;

use crate::server::Server;
use crate::world::{World, here, opens, policy};

const NAMES: [&str; 2] = ["a.example.org", "b.example.org"];

/// An entry with `protocol: tcp`, so that a connection can be held open.
fn tcp(port: u16, names: &[&str]) -> String {
    let entry = |name: &&str| format!("  - {{host: {name}, ports: [{port}], protocol: tcp}}\n");
    let entries: String = names.iter().chain(&["127.0.0.1"]).map(entry).collect();
    format!("network_allowlist:\n{entries}")
}

#[tokio::test]
async fn new_policy_closes_what_it_does_not_allow_and_nothing_else() {
    let server = Server::echo("hi").await;
    let port = server.port;
    let world = World::new(&tcp(port, &NAMES), here(&NAMES));
    let mut kept = world.dial("a.example.org", port).await;
    let mut closed = world.dial("b.example.org", port).await;
    assert_eq!(kept.exactly(2).await, b"hi");
    assert_eq!(closed.exactly(2).await, b"hi");
    world.gate.replace_policy(policy(&tcp(port, &["a.example.org"])));
    assert!(closed.rest().await.is_empty());
    let event = world.event().await;
    assert_eq!((event.host.as_str(), event.verdict), ("b.example.org", Effect::Deny));
    assert_eq!(event.denial.unwrap().why, "network_allowlist does not name b.example.org");
    kept.send(b"still").await;
    assert_eq!(kept.exactly(5).await, b"still");
    assert_eq!(world.code("b.example.org").await, ResponseCode::NXDomain);
}

#[tokio::test]
async fn new_policy_closes_bytes_that_must_be_read_now() {
    let server = Server::echo("hi").await;
    let port = server.port;
    let world = World::new(&tcp(port, &NAMES), here(&NAMES));
    let mut program = world.dial("a.example.org", port).await;
    assert_eq!(program.exactly(2).await, b"hi");
    world.gate.replace_policy(policy(&opens(port, &["a.example.org"], "")));
    assert!(program.rest().await.is_empty());
}

#[tokio::test]
async fn closed_gate_ends_everything_and_stays_closed() {
    let server = Server::echo("hi").await;
    let port = server.port;
    let world = World::new(&tcp(port, &NAMES), here(&NAMES));
    let address = world.address("a.example.org").await;
    let mut program = world.dial("a.example.org", port).await;
    assert_eq!(program.exactly(2).await, b"hi");
    world.gate.close();
    assert!(program.rest().await.is_empty());
    world.gate.replace_policy(policy(&tcp(port, &NAMES)));
    let opening = stockade_provider::Destination::Address { address, port };
    assert!(world.open(opening).rest().await.is_empty());
    assert!(world.open(stockade_provider::Destination::Names).rest().await.is_empty());
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn nothing_passes_once_the_record_cannot_be_written() {
    let server = Server::echo("hi").await;
    let port = server.port;
    let world = World::new(&tcp(port, &["a.example.org"]), here(&NAMES));
    let mut program = world.dial("a.example.org", port).await;
    assert_eq!(program.exactly(2).await, b"hi");
    world.break_record();
    let mut denied = world.open(stockade_provider::Destination::Proxy);
    denied.send(format!("CONNECT b.example.org:{port} HTTP/1.1\r\n\r\n")).await;
    assert!(program.rest().await.is_empty());
    assert!(world.proxy().rest().await.is_empty());
}

#[tokio::test]
async fn open_connections_are_recorded_when_their_sandbox_ends() {
    let server = Server::echo("hi").await;
    let port = server.port;
    let world = World::new(&tcp(port, &NAMES), here(&NAMES));
    let address = world.address("a.example.org").await;
    let (mut inside, outside) = tokio::io::duplex(1024);
    let opening = stockade_provider::Destination::Address { address, port };
    let served = tokio::spawn(world.gate.serve(opening, Box::new(outside)));
    let mut bytes = [0; 2];
    tokio::io::AsyncReadExt::read_exact(&mut inside, &mut bytes).await.unwrap();
    served.abort();
    let event = world.event().await;
    assert_eq!((event.verdict, event.received_bytes), (Effect::Allow, 2));
}
