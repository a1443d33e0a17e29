//! Connections, bytes and rate.

use std::time::Instant;

use stockade_policy::Limit;

use crate::server::Server;
use crate::world::{World, here, opens, short_times, within};

const NAMES: [&str; 1] = ["a.example.org"];

#[tokio::test]
async fn connections_over_the_limit_are_refused_and_permits_are_released() {
    let server = Server::hello().await;
    let port = server.port;
    let text = opens(port, &NAMES, "limits: {max_connections: 2}\n");
    let world = World::with_times(&text, here(&NAMES), short_times());
    let request = format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n");
    let mut one = world.dial("a.example.org", port).await;
    let mut two = world.dial("a.example.org", port).await;
    for program in [&mut one, &mut two] {
        program.send(&request).await;
        assert_eq!(program.answer().await.status, 200);
    }
    let mut three = world.dial("a.example.org", port).await;
    three.send(&request).await;
    let answer = three.answer().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["control"], "max_connections");
    let mut tunnel = world.proxy();
    tunnel.send(format!("CONNECT a.example.org:{port} HTTP/1.1\r\n\r\n")).await;
    assert_eq!(tunnel.answer().await.status, 503);
    assert!(world.gate.observed().limits_hit.contains(&Limit::Connections));
    drop(one);
    drop(two);
    world.events(4).await;
    // A permit is free once its connection has ended, which the program cannot observe.
    loop {
        let mut again = world.dial("a.example.org", port).await;
        again.send(&request).await;
        if again.answer().await.status == 200 {
            break;
        }
    }
}

#[tokio::test]
async fn bytes_over_the_limit_do_not_pass_and_the_engine_is_notified() {
    let body = "x".repeat(10_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n{body}");
    let server = Server::http(&answer).await;
    let port = server.port;
    let request = format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n");
    let world =
        World::new(&opens(port, &NAMES, "limits: {max_egress_bytes: 15000}\n"), here(&NAMES));
    let mut exceeded = std::pin::pin!(world.gate.exceeded());
    let mut program = world.dial("a.example.org", port).await;
    program.send(&request).await;
    assert_eq!(program.answer().await.body.len(), 10_000);
    assert!(!world.gate.observed().limits_hit.contains(&Limit::EgressBytes));
    program.send(&request).await;
    assert!(program.rest().await.len() < 5_000);
    assert_eq!(within(&mut exceeded).await, Limit::EgressBytes);
    assert!(world.gate.observed().limits_hit.contains(&Limit::EgressBytes));
    let events = world.events(2).await;
    let counted: u64 = events.iter().map(|event| event.sent_bytes + event.received_bytes).sum();
    assert!(counted <= 15_000, "{counted}");
}

#[tokio::test]
async fn names_that_are_resolved_count_as_bytes() {
    let server = Server::hello().await;
    let port = server.port;
    let text = opens(port, &["*.a.example.org"], "limits: {max_egress_bytes: 1000}\n");
    let names: Vec<String> = (10..60).map(|at| format!("{at}.secret.a.example.org")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::new(&text, here(&names));
    let mut exceeded = std::pin::pin!(world.gate.exceeded());
    let mut opened = 0;
    for name in &names {
        let mut program = world.proxy();
        program.send(format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n")).await;
        opened += usize::from(program.answer().await.status == 200);
    }
    assert_eq!(within(&mut exceeded).await, Limit::EgressBytes);
    assert_eq!(opened, 1000 / names[0].len());
}

#[tokio::test]
async fn rate_is_held() {
    let body = "x".repeat(30_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n{body}");
    let server = Server::http(&answer).await;
    let port = server.port;
    let request = format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n");
    let took = async |limits: &str| {
        let world = World::new(&opens(port, &NAMES, limits), here(&NAMES));
        let mut program = world.dial("a.example.org", port).await;
        let begin = Instant::now();
        program.send(&request).await;
        assert_eq!(program.answer().await.body.len(), 30_000);
        let hit = world.gate.observed().limits_hit.contains(&Limit::EgressRate);
        (begin.elapsed().as_secs_f64(), hit)
    };
    let (fast, hit) = took("").await;
    assert!(!hit);
    let (slow, hit) = took("limits: {max_egress_bytes_per_second: 30000}\n").await;
    assert!(hit && slow >= 0.7 && slow > fast, "{fast} {slow}");
}
