//! Where names resolve to, and which addresses stay unreachable.

use std::net::IpAddr;

use stockade_egress::FixedNames;
use stockade_policy::Effect;

use crate::server::Server;
use crate::world::{HERE, World, here, opens, short_times};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn connect(world: &World, authority: &str) -> u16 {
    let mut program = world.proxy();
    program.send(format!("CONNECT {authority} HTTP/1.1\r\n\r\n")).await;
    program.answer().await.status
}

#[tokio::test]
async fn names_never_resolve_to_special_addresses() {
    let server = Server::hello().await;
    let port = server.port;
    let open = World::new(&opens(port, &["a.example.org"], ""), here(&["a.example.org"]));
    assert_eq!(connect(&open, &format!("a.example.org:{port}")).await, 200);
    for special in [
        "127.0.0.1",
        "127.64.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "ff02::1",
    ] {
        let names = FixedNames::default().answer("a.example.org", &[address(special)], &[]);
        let text = format!(
            "{{defaults: {{network_default: allow}}, network_ports: [{port}], \
             network_allowlist: [a.example.org]}}"
        );
        let world = World::new(&text, names);
        assert_eq!(connect(&world, &format!("a.example.org:{port}")).await, 403, "{special}");
        assert_eq!(world.event().await.verdict, Effect::Deny, "{special}");
        let literal = match address(special) {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        assert_eq!(connect(&world, &format!("{literal}:{port}")).await, 403, "{literal}");
    }
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn default_allow_reaches_public_hosts_and_nothing_else() {
    let server = Server::hello().await;
    let port = server.port;
    let text = format!("{{defaults: {{network_default: allow}}, network_ports: [{port}]}}");
    let names = FixedNames::default()
        .answer("public.example.org", &[address("93.184.216.34")], &[])
        .answer("private.example.org", &[address("10.0.0.1")], &[]);
    let world = World::new(&text, names);
    assert_eq!(connect(&world, &format!("public.example.org:{port}")).await, 200);
    assert_eq!(connect(&world, &format!("private.example.org:{port}")).await, 403);
    assert_eq!(connect(&world, "public.example.org:22").await, 403);
    let why: Vec<String> =
        world.gate.observed().denials.into_iter().map(|denial| denial.why).collect();
    assert_eq!(
        why,
        [
            "private.example.org resolves to a private address",
            "network_ports does not name port 22",
        ]
    );
    assert_eq!(world.dialled(), [(address("93.184.216.34"), port).into()]);
}

#[tokio::test]
async fn of_a_mixed_answer_only_the_allowed_addresses_are_dialled() {
    let server = Server::hello().await;
    let port = server.port;
    let public = address("93.184.216.34");
    let mixed = [address("10.0.0.1"), HERE, address("169.254.169.254"), public, address("::1")];
    let names = FixedNames::default().answer("a.example.org", &mixed, &[]);
    let world = World::new(&format!("network_allowlist: ['a.example.org:{port}']"), names);
    let mut program = world.dial("a.example.org", port).await;
    program.send(format!("GET / HTTP/1.1\r\nHost: a.example.org:{port}\r\n\r\n")).await;
    assert_eq!(program.answer().await.status, 200);
    assert_eq!(world.event().await.address, Some(public));
    assert_eq!(world.dialled(), [(public, port).into()]);
}

#[tokio::test]
async fn own_addresses_are_refused_unless_spelled_out() {
    let server = Server::hello().await;
    let port = server.port;
    let open = World::new(&opens(port, &["a.example.org"], ""), here(&["a.example.org"]));
    assert_eq!(connect(&open, &format!("a.example.org:{port}")).await, 200);
    let own = stockade_sys::interface_addresses().unwrap();
    assert!(own.contains(&HERE));
    for own in own {
        let names = FixedNames::default().answer("a.example.org", &[own], &[]);
        let world = World::new(&format!("network_allowlist: ['a.example.org:{port}']"), names);
        assert_eq!(connect(&world, &format!("a.example.org:{port}")).await, 403, "{own}");
        assert_eq!(world.dialled(), []);
    }
}

#[tokio::test]
async fn name_that_changes_its_address_is_judged_again() {
    let server = Server::hello().await;
    let port = server.port;
    let public = address("93.184.216.34");
    let names = FixedNames::default().answer("a.example.org", &[public], &[]);
    let names = names.answer("a.example.org", &[HERE], &[]);
    let world = World::new(&format!("network_allowlist: ['a.example.org:{port}']"), names);
    assert_eq!(connect(&world, &format!("a.example.org:{port}")).await, 200);
    assert_eq!(connect(&world, &format!("a.example.org:{port}")).await, 403);
    let why = &world.gate.observed().denials[0].why;
    assert_eq!(why, "a.example.org resolves to a loopback address");
    assert_eq!(world.dialled(), [(public, port).into()]);
}

#[tokio::test]
async fn aliases_of_blocked_names_are_refused() {
    let server = Server::hello().await;
    let port = server.port;
    let names = || {
        FixedNames::default().answer("a.example.org", &[HERE], &["b.example.net", "c.example.com"])
    };
    let open = World::new(&opens(port, &["a.example.org"], ""), names());
    assert_eq!(connect(&open, &format!("a.example.org:{port}")).await, 200);
    let block = "network_blocklist: ['*.example.com']\n";
    let blocked = World::new(&opens(port, &["a.example.org"], block), names());
    assert_eq!(connect(&blocked, &format!("a.example.org:{port}")).await, 403);
    let denial = blocked.event().await.denial.unwrap();
    assert_eq!(denial.control, "network_block");
    assert!(denial.why.starts_with("a.example.org is an alias of c.example.com: "));
    let metadata = FixedNames::default().answer("a.example.org", &[HERE], &["metadata.goog"]);
    let world = World::new(&opens(port, &["a.example.org"], ""), metadata);
    assert_eq!(connect(&world, &format!("a.example.org:{port}")).await, 403);
}

#[tokio::test]
async fn blocked_ranges_apply_after_resolving() {
    let server = Server::hello().await;
    let port = server.port;
    let names = ["a.example.org"];
    let open = World::new(&opens(port, &names, ""), here(&names));
    assert_eq!(connect(&open, &format!("a.example.org:{port}")).await, 200);
    let block = "network_blocklist: [127.0.0.0/8]\n";
    let blocked = World::new(&opens(port, &names, block), here(&names));
    assert_eq!(connect(&blocked, &format!("a.example.org:{port}")).await, 403);
    assert_eq!(connect(&blocked, &format!("127.0.0.1:{port}")).await, 403);
}

#[tokio::test]
async fn synthetic_address_without_a_name_is_refused_in_every_protocol() {
    let server = Server::hello().await;
    let names = ["a.example.org"];
    let text = opens(server.port, &names, "");
    let world = World::with_times(&text, here(&names), short_times());
    let request = format!("GET / HTTP/1.1\r\nHost: a.example.org:{}\r\n\r\n", server.port);
    let mut known = world.dial("a.example.org", server.port).await;
    known.send(&request).await;
    assert_eq!(known.answer().await.status, 200);
    let unknown = || {
        let address = [127, 64, 0, 200].into();
        world.open(stockade_provider::Destination::Address { address, port: server.port })
    };
    let mut program = unknown();
    program.send(&request).await;
    assert_eq!(program.answer().await.status, 403);
    let mut program = unknown();
    program.send([22, 3, 1, 0, 4, 1, 0, 0, 0]).await;
    assert_eq!(program.rest().await, [21, 3, 3, 0, 2, 2, 49]);
    assert!(unknown().rest().await.is_empty());
    assert_eq!(server.seen().connections, 1);
}

#[tokio::test]
async fn address_that_stands_for_no_name_is_judged_as_a_literal() {
    let server = Server::hello().await;
    let port = server.port;
    let entry = format!("{{ host: 127.0.0.1, ports: [{port}], protocol: tcp }}");
    let request = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let dial = |world: &World| {
        let address = [127, 0, 0, 1].into();
        world.open(stockade_provider::Destination::Address { address, port })
    };
    let allowed = World::new(&format!("network_allowlist: [{entry}]"), FixedNames::default());
    let mut program = dial(&allowed);
    program.send(&request).await;
    assert_eq!(program.answer().await.status, 200);
    for text in ["{}", "network_allowlist: [a.example.org]", "network_allowlist: ['127.0.0.1:1']"] {
        let denied = World::new(text, FixedNames::default());
        let mut program = dial(&denied);
        program.send(&request).await;
        assert_eq!(program.answer().await.status, 403, "{text}");
        assert_eq!(denied.dialled(), []);
    }
}

#[tokio::test]
async fn next_address_is_tried_when_one_does_not_answer() {
    let server = Server::hello().await;
    let port = server.port;
    // No server listens on 127.0.0.2, and these are really dialled.
    let names = FixedNames::default().answer("a.example.org", &[address("127.0.0.2"), HERE], &[]);
    let more = format!("  - {{host: 127.0.0.2, ports: [{port}]}}\n");
    let world = World::dialling(&opens(port, &["a.example.org"], &more), names);
    assert_eq!(connect(&world, &format!("a.example.org:{port}")).await, 200);
    assert_eq!(connect(&world, &format!("127.0.0.2:{port}")).await, 502);
}
