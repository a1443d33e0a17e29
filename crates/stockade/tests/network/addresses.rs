//! Addresses that an allowed name must not resolve to.

use std::net::{IpAddr, Ipv4Addr, TcpListener};

use crate::conversation::{Said, converse};
use crate::support::{
    Run, Token, Watch, command, direct, finish, inside, internet, tests, with_policy,
};

tests![
    h11_literals_in_every_spelling_are_refused,
    h12_allowed_names_do_not_reach_special_addresses,
    h12_allowed_name_does_not_reach_the_machine_itself,
    h12_name_with_a_public_and_a_private_address_never_reaches_the_private_one,
    h13_metadata_is_never_reached,
    h15_dns_rebinding_is_denied,
];

/// A server on the machine's loopback that programs inside must not reach.
struct Canary(TcpListener);

impl Canary {
    fn on(address: Ipv4Addr, port: u16) -> Canary {
        let listener = TcpListener::bind((address, port)).expect("the machine has a free port");
        listener.set_nonblocking(true).expect("a listener can be asked");
        Canary(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("it has an address").port()
    }

    fn was_reached(&self) -> bool {
        self.0.accept().is_ok()
    }
}

fn curl(url: &str) -> Vec<&str> {
    vec!["curl", "-sS", "-k", "-m", "5", url]
}

/// Connects by name, without the proxy.
fn curl_by_name(url: &str) -> Vec<&str> {
    vec!["curl", "-sS", "-k", "-m", "5", "--noproxy", "*", url]
}

#[track_caller]
fn is_denied(run: &Run) {
    assert!(!run.has_token(), "{run:?}");
    assert!(run.stderr.contains("stockade: denied"), "{run:?}");
}

fn h11_literals_in_every_spelling_are_refused() {
    let canary = Canary::on(Ipv4Addr::LOCALHOST, 0);
    let port = canary.port();
    let hosts = [
        "127.0.0.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "0x7f000001",
        "127.1",
        "127.0.1",
        "017700000001",
        "127.0.0.01",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:5db8:101::80ff:fffe]",
        "0.0.0.0",
        "0",
        "[::]",
        "[::1%25lo]",
        "::1",
        "93.184.1.1",
        "1572339969",
        "[2a0e:5700:1::1]",
    ];
    let mut said = Vec::new();
    for host in hosts {
        said.push(Said::connect(format!("{host}:{port}")));
        said.push(Said::connect(format!("{host}:443")));
        let request = format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        said.push(Said::new(request));
    }
    let heard = converse(&["--allow-host", "files.test"], &said);
    for (said, heard) in said.iter().zip(&heard) {
        let said = String::from_utf8_lossy(&said.bytes).into_owned();
        assert!(heard.is_refused(), "{said:?}: {heard:?}");
    }
    assert!(!canary.was_reached());
    let url = format!("http://127.0.0.1:{port}/");
    direct(&["curl", "-sS", "-m", "1", &url]);
    assert!(canary.was_reached(), "without the wall the canary is reached");
}

fn h12_allowed_names_do_not_reach_special_addresses() {
    // Each name is allowed, and each address answers without the wall.
    for name in [
        "10-77-0-1.ip.test",
        "172-16-77-1.ip.test",
        "192-168-78-1.ip.test",
        "100-64-77-1.ip.test",
        "169-254-77-1.ip.test",
        "198-18-77-1.ip.test",
        "203-0-113-77.ip.test",
        "192-0-0-77.ip.test",
        "private.test",
        "cname-private.test",
        "router.test",
        "fd77--1.six.test",
        "2001-db8--77.six.test",
        "64-ff9b--a4d-1.six.test",
        "2002-a4d-1--1.six.test",
    ] {
        let url = format!("https://{name}/");
        let run = direct(&curl(&url));
        assert!(run.has_token(), "{name} on the machine: {run:?}");
        for words in [curl(&url), curl_by_name(&url)] {
            let watch = Watch::start();
            let run = inside(&["--allow-host", name], &words);
            is_denied(&run);
            let connected =
                |entry: &stockade_internet::LogEntry| entry.event == "hello" && entry.name == name;
            assert_eq!(watch.seen(connected), [], "{name}");
        }
    }
    // No server has these addresses; the gate refuses them by their type.
    for name in [
        "0-0-0-1.ip.test",
        "127-9-9-9.ip.test",
        "224-0-0-77.ip.test",
        "240-0-0-77.ip.test",
        "255-255-255-255.ip.test",
        "fe80--77.six.test",
        "ff02--77.six.test",
        "mapped.test",
        "compatible.test",
        "nat64.test",
        "sixtofour.test",
        "teredo.test",
        "loopback.test",
    ] {
        let run = inside(&["--allow-host", name], &curl(&format!("https://{name}/")));
        is_denied(&run);
    }
}

fn h12_allowed_name_does_not_reach_the_machine_itself() {
    let canary = Canary::on(stockade_internet::MACHINE_PUBLIC, 80);
    direct(&["curl", "-sS", "-m", "1", "http://own.test/"]);
    assert!(canary.was_reached(), "without the wall the machine reaches itself");
    let run = inside(&["--allow-host", "own.test"], &curl("http://own.test/"));
    assert!(!canary.was_reached(), "{run:?}");
    is_denied_or_said(&run);
}

/// Over plain HTTP the response body contains the denial too.
fn is_denied_or_said(run: &Run) {
    assert!(run.stderr.contains("stockade: denied"), "{run:?}");
    assert!(run.stdout.contains("how_to_allow"), "{run:?}");
}

fn h12_name_with_a_public_and_a_private_address_never_reaches_the_private_one() {
    let private = IpAddr::V4(stockade_internet::PRIVATE);
    let watch = Watch::start();
    for _ in 0..4 {
        let run = inside(&["--allow-host", "mixed.test"], &curl("https://mixed.test/"));
        let expected = format!("{} mixed.test\n", internet().token());
        assert!(run.stdout == expected || run.stderr.contains("stockade: denied"), "{run:?}");
    }
    let reached = |entry: &stockade_internet::LogEntry| {
        entry.event == "hello"
            && entry.name == "mixed.test"
            && entry.to.starts_with(&private.to_string())
    };
    assert_eq!(watch.seen(reached), []);
}

fn h13_metadata_is_never_reached() {
    for name in [
        "meta.test",
        "fd00-ec2--254.six.test",
        "100-100-100-200.ip.test",
        "168-63-129-16.ip.test",
        "192-0-0-192.ip.test",
    ] {
        let url = format!("http://{name}/latest/meta-data/");
        assert_eq!(direct(&curl(&url)).text(), "nothing here\n", "{name} answers on the machine");
        let run = inside(&["--allow-host", name], &curl(&url));
        assert!(!run.stdout.contains("nothing here"), "{name}: {run:?}");
        is_denied(&run);
    }
    // The command line refuses these hosts.
    for host in ["metadata.google.internal", "169.254.169.254", "[fd00:ec2::254]"] {
        let run = finish(command(&["--allow-host", host], &["true"]));
        assert_eq!(run.code, 125, "{host}: {run:?}");
        assert!(run.stderr.contains("metadata"), "{host}: {run:?}");
    }
    // A policy that allows every public host does not allow them either.
    let policy = "defaults: { network_default: allow }\n";
    for host in ["metadata.google.internal", "169.254.169.254"] {
        let url = format!("http://{host}/");
        assert!(direct(&curl(&url)).has_token());
        is_denied(&with_policy(policy, &curl(&url)));
    }
}

fn h15_dns_rebinding_is_denied() {
    let canary = Canary::on(Ipv4Addr::LOCALHOST, 80);
    // The name server's first answer is public, every later one is the loopback.
    let outside = ["curl", "-sS", "-m", "2", "http://machine.rebind.test/"];
    assert!(direct(&outside).has_token());
    direct(&outside);
    assert!(canary.was_reached(), "without the wall the second request comes to the loopback");

    for (name, words) in [("one.rebind.test", &[][..]), ("two.rebind.test", &["--noproxy", "*"])] {
        let script = "curl -sS -m 5 \"$@\"; curl -sS -m 5 \"$@\"";
        let url = format!("http://{name}/");
        let run = inside(
            &["--allow-host", name],
            &[&["sh", "-c", script, "sh"], words, &[&url]].concat(),
        );
        let token = internet().token();
        assert_eq!(run.stdout.matches(token).count(), 1, "{run:?}");
        assert!(run.stdout.contains("how_to_allow"), "{run:?}");
        assert!(!canary.was_reached());
    }
}
