//! SOCKS through the proxy.

use stockade_policy::Effect;
use stockade_record::Via;

use crate::server::Server;
use crate::world::{HERE, Program, World, here, opens};

const NAMES: [&str; 2] = ["a.example.org", "b.example.org"];

fn by_name(name: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8], name, &port.to_be_bytes()].concat()
}

async fn greeted(world: &World) -> Program {
    let mut program = world.proxy();
    program.send([5, 1, 0]).await;
    assert_eq!(program.exactly(2).await, [5, 0]);
    program
}

#[tokio::test]
async fn denied_host_gets_reply_2() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&NAMES));
    let mut program = greeted(&world).await;
    program.send(by_name(b"a.example.org", port)).await;
    assert_eq!(program.exactly(10).await[..2], [5, 0]);
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    assert_eq!(program.answer().await.body, b"hello");
    drop(program);
    assert_eq!(world.event().await.via, Via::Socks);
    let mut program = greeted(&world).await;
    program.send(by_name(b"b.example.org", port)).await;
    assert_eq!(program.exactly(10).await[..2], [5, 2]);
    assert!(program.rest().await.is_empty());
    let event = world.events(2).await[1].clone();
    assert_eq!((event.verdict, event.port), (Effect::Deny, Some(port)));
    assert_eq!(event.host, "b.example.org");
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn abandoned_tunnel_is_still_recorded() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&NAMES));
    let mut program = greeted(&world).await;
    program.send(by_name(b"a.example.org", port)).await;
    drop(program);
    let event = world.event().await;
    assert_eq!(world.dialled().len(), 1);
    assert_eq!((event.via, event.verdict), (Via::Socks, Effect::Allow));
    assert_eq!((event.host.as_str(), event.address), ("a.example.org", Some(HERE)));
    assert!(event.failure.is_some());
}

#[tokio::test]
async fn only_connections_to_hosts_are_served() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&NAMES));
    let ask = async |request: Vec<u8>| {
        let mut program = greeted(&world).await;
        program.send(request).await;
        program.exactly(10).await[1]
    };
    assert_eq!(ask(by_name(b"A.EXAMPLE.org.", port)).await, 0);
    let there = port.to_be_bytes();
    assert_eq!(ask([&[5, 1, 0, 1, 127, 0, 0, 1], &there[..]].concat()).await, 0);
    let before = server.seen().connections;
    assert_eq!(ask([&[5, 2, 0, 1, 127, 0, 0, 1], &there[..]].concat()).await, 7);
    assert_eq!(ask([&[5, 3, 0, 1, 127, 0, 0, 1], &there[..]].concat()).await, 7);
    assert_eq!(ask([&[5, 1, 0, 1, 127, 0, 0, 2], &there[..]].concat()).await, 2);
    assert_eq!(ask(by_name(b"b.example.org\0.a.example.org", port)).await, 2);
    assert_eq!(ask(by_name(b"a.example.org\0", port)).await, 2);
    assert_eq!(ask(by_name(&[b'a'; 255], port)).await, 2);
    let v6 = [&[5, 1, 0, 4][..], &[0; 10], &[0xff, 0xff, 127, 0, 0, 1], &there].concat();
    assert_eq!(ask(v6).await, 2);
    assert_eq!(server.seen().connections, before);
}

#[tokio::test]
async fn passwords_and_socks_4_are_refused() {
    let world = World::new("network_allowlist: [a.example.org]", here(&NAMES));
    greeted(&world).await;
    let mut asks = world.proxy();
    asks.send([5, 1, 2]).await;
    assert_eq!(asks.rest().await, [5, 0xff]);
    let mut old = world.proxy();
    old.send(b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00a.example.org\x00").await;
    assert_eq!(old.rest().await, [0, 91, 0, 0, 0, 0, 0, 0]);
    assert_eq!(world.gate.observed().denials[0].target, "SOCKS 4");
}

#[tokio::test]
async fn synthetic_address_is_judged_as_its_name() {
    let server = Server::hello().await;
    let port = server.port;
    let world = World::new(&opens(port, &["a.example.org"], ""), here(&NAMES));
    let address = world.address("a.example.org").await.octets();
    let mut program = greeted(&world).await;
    program.send([&[5, 1, 0, 1], &address[..], &port.to_be_bytes()].concat()).await;
    assert_eq!(program.exactly(10).await[..2], [5, 0]);
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    assert_eq!(program.answer().await.status, 200);
    let mut program = greeted(&world).await;
    program.send([&[5, 1, 0, 1, 127, 64, 0, 9][..], &port.to_be_bytes()].concat()).await;
    assert_eq!(program.exactly(10).await[..2], [5, 2]);
}
