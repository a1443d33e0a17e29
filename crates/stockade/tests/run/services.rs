//! Services of the host that a run reaches by their literal address.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::{outside, stockade, walls_can_be_built};
use stockade_testing::Scratch;

/// Requests an address with Python's own client, which uses the proxy of the environment.
const ASK: &str = "import sys, urllib.request; \
                   print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())";

/// Starts a server on the host's loopback that answers every request; returns its port.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { continue };
            let mut head = [0; 4096];
            // A client that goes away early does not end the server.
            let _ = connection.read(&mut head);
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nservice";
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn service_on_the_loopback_of_the_host_is_reached_by_its_allowed_literal_only() {
    if !walls_can_be_built() {
        return;
    }
    let port = server();
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(outside(&["python3", "-c", ASK, &url]).text(), "service\n");
    let allowed = format!("127.0.0.1:{port}");
    let ask = ["--", "python3", "-c", ASK, &url];
    let run = stockade(&[&["--allow-host", allowed.as_str()][..], &ask].concat());
    assert_eq!(run.text(), "service\n");
    // Another port of the same address stays closed, and the denial names it.
    let run = stockade(&[&["--allow-host", "127.0.0.1:1"][..], &ask].concat());
    assert_ne!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains(&format!("denied 127.0.0.1:{port}")), "{run:?}");
    // `localhost` stays the sandbox itself.
    let own = format!(
        "import socket; listener = socket.create_server(('127.0.0.1', {port})); \
         socket.create_connection(('localhost', {port})); listener.accept(); print('own')"
    );
    let run = stockade(&["--allow-host", &allowed, "--", "python3", "-c", &own]);
    assert_eq!(run.text(), "own\n");
}

/// Connects without any proxy, as a database client does, and reads what the server sends first.
const GREET: &str = "import socket, sys; \
                     client = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10); \
                     print(client.makefile().readline().strip()); client.sendall(b'bye\\n'); \
                     print(client.makefile().readline().strip())";

/// Starts a server on the host's loopback that sends first, and then back what it receives.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { continue };
            std::thread::spawn(move || {
                let mut line = [0; 64];
                // A client that goes away early does not end the server.
                let _ = connection.write_all(b"welcome\n");
                let read = connection.read(&mut line).unwrap_or(0);
                let _ = connection.write_all(&line[..read]);
            });
        }
    });
    port
}

#[test]
fn client_without_a_proxy_reaches_an_allowed_literal_for_any_bytes_only() {
    if !walls_can_be_built() {
        return;
    }
    let port = greeter().to_string();
    assert_eq!(outside(&["python3", "-c", GREET, "127.0.0.1", &port]).text(), "welcome\nbye\n");
    let allow = format!("tcp://127.0.0.1:{port}");
    for host in ["127.0.0.1", "localhost"] {
        let run = stockade(&["--allow", &allow, "--", "python3", "-c", GREET, host, &port]);
        assert_eq!(run.text(), "welcome\nbye\n", "{host}: {run:?}");
    }
    // By a policy of a file too.
    let scratch = Scratch::new();
    let entry = format!("{{ host: 127.0.0.1, ports: [{port}], protocol: tcp }}");
    let policy = scratch.file("policy.yaml", format!("network_allowlist: [{entry}]\n"));
    let greet = ["--", "python3", "-c", GREET, "127.0.0.1", port.as_str()];
    let run = stockade(&[&["--policy", policy.as_str()][..], &greet].concat());
    assert_eq!(run.text(), "welcome\nbye\n", "{run:?}");
    // Another port is the sandbox's own, where nothing listens.
    let run = stockade(&[&["--allow", "tcp://127.0.0.1:1"][..], &greet].concat());
    assert!(run.code == 1 && run.stderr.contains("ConnectionRefusedError"), "{run:?}");
    // Without `tcp` the address is for clients of the proxy, and the remedy names the flag.
    let literal = format!("127.0.0.1:{port}");
    let run = stockade(&[&["--allow-host", literal.as_str()][..], &greet].concat());
    assert!(run.code == 1 && run.stderr.contains("ConnectionRefusedError"), "{run:?}");
    assert!(run.stderr.contains(&format!("--allow {allow}")), "{run:?}");
}

#[test]
fn localhost_as_an_allowed_host_is_refused_with_the_literal_as_remedy() {
    for host in ["localhost:8000", "localhost", "db.localhost"] {
        let run = stockade(&["--allow-host", host, "--", "true"]);
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.stderr.contains("is the sandbox itself"), "{run:?}");
        assert!(run.stderr.contains("127.0.0.1:8000"), "{run:?}");
    }
}

#[test]
fn learning_reaches_an_allowed_literal_and_the_learned_policy_allows_the_same_run() {
    if !walls_can_be_built() {
        return;
    }
    let port = server();
    let url = format!("http://127.0.0.1:{port}/");
    let scratch = Scratch::new();
    let file = scratch.path().join("learned.yaml").to_str().unwrap().to_owned();
    let ask = ["--", "python3", "-c", ASK, &url];
    // Without the literal the run reaches nothing, and the remedy can be combined with --learn.
    let run = stockade(&[&["--learn", file.as_str()][..], &ask].concat());
    assert_ne!(run.code, 0, "{run:?}");
    let run =
        stockade(&[&["--learn", file.as_str(), "--allow-host", "127.0.0.1:1"][..], &ask].concat());
    assert!(run.code == 125 && run.stderr.contains("the file exists"), "{run:?}");
    std::fs::remove_file(&file).unwrap();
    let run =
        stockade(&[&["--learn", file.as_str(), "--allow-host", "127.0.0.1:1"][..], &ask].concat());
    assert!(run.stderr.contains("allow its literal address with the port"), "{run:?}");
    std::fs::remove_file(&file).unwrap();
    let allowed = format!("127.0.0.1:{port}");
    let run = stockade(&[&["--learn", file.as_str(), "--allow-host", &allowed][..], &ask].concat());
    assert_eq!(run.text(), "service\n");
    let run = stockade(&[&["--policy", file.as_str()][..], &ask].concat());
    assert_eq!(run.text(), "service\n");
}
