//! Ports of servers inside, forwarded to this host.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Sessions, finish, is_root, not_run, wait_for};

/// Echoes, after the end of its input: shows half-close.
const ECHO: &str = "import socket, sys\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\nprint('ready', flush=True)\n\
    while True:\n    c, _ = s.accept()\n    parts = []\n    while part := c.recv(65536): parts.append(part)\n    \
    c.sendall(b''.join(parts) + b'.')\n    c.close()\n";

impl Sessions {
    /// Starts a server in a session and waits until it listens.
    #[track_caller]
    fn serve(&self, session: &str, code: &str, port: &str) {
        self.sh(session, &format!("cat > server-{port}.py <<'END'\n{code}\nEND")).text();
        let script = format!("python3 server-{port}.py {port} > out-{port} 2>&1");
        self.text(&["exec", "-d", session, "--", "sh", "-c", &script]);
        wait_for("the server listens", || {
            self.sh(session, &format!("cat out-{port}")).stdout.contains("ready").then_some(())
        });
    }

    /// Forwards a port and returns its address on this host.
    #[track_caller]
    fn forward(&self, session: &str, words: &[&str]) -> String {
        self.text(&[&["port", session], words].concat()).trim().to_owned()
    }
}

/// Sends bytes, half-closes, and reads to the end.
fn exchange(address: &str, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn events(sessions: &Sessions, session: &str) -> Vec<Value> {
    let record = sessions.json(&["inspect", session])[0]["record"].as_str().map(str::to_owned);
    let record = record.expect("a record is kept");
    let events = sessions.json(&["audit", "show", &record]);
    let all = events.as_array().expect("events are a list").iter();
    all.filter(|event| event["kind"] == "port").map(|event| event["body"].clone()).collect()
}

#[test]
fn web_server_inside_answers_the_host_through_its_port() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.sh("one", "echo hello > index.txt").text();
    let server = "import http.server, sys, functools\n\
        s = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)\n\
        print('ready', flush=True)\ns.serve_forever()";
    sessions.serve("one", server, "8000");
    let address = sessions.forward("one", &["8000"]);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let request =
        format!("GET /index.txt HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    drop(stream);
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("\r\n\r\nhello\n"), "{answer}");
    assert_eq!(sessions.forward("one", &["8000"]), address, "it keeps its address");
    let listed = sessions.json(&["port", "one"]);
    assert_eq!(
        (&listed[0]["port"], &listed[0]["connections"]),
        (&json!(8000), &json!(1)),
        "{listed}"
    );
    wait_for("the connection is recorded", || {
        let found = events(&sessions, "one");
        let acts: Vec<_> = found.iter().map(|event| event["act"].as_str().unwrap()).collect();
        (acts == ["opened", "connection"]).then(|| {
            assert_eq!(found[1]["sent_bytes"], request.len());
            assert_eq!(found[1]["received_bytes"], answer.len());
        })
    });
    sessions.text(&["port", "one", "8000", "--close"]);
    assert!(TcpStream::connect(&address).is_err());
    assert_eq!(sessions.json(&["port", "one"]), json!([]));
    sessions.refused(
        &["port", "one", "8000", "--close"],
        "port 8000 is not forwarded",
        "stockade port",
    );
}

/// Greets, and then keeps what it gets.
const GREETING: &str = "import socket, sys, threading\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\nprint('ready', flush=True)\n\
    def keep(c):\n    c.sendall(b'hello')\n    try:\n        while c.recv(100): print('got', flush=True)\n    \
    except OSError: pass\n    print('over', flush=True)\n\
    while True: threading.Thread(target=keep, args=s.accept()[:1]).start()\n";

#[test]
fn connection_that_breaks_or_is_open_at_the_end_is_recorded_with_its_bytes() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.serve("one", GREETING, "7000");
    let greeted = |address: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"abc").unwrap();
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"hello");
        stream
    };
    let inside = |text: &str, count: usize| {
        wait_for(text, || {
            let output = sessions.sh("one", "cat out-7000").stdout;
            (output.matches(text).count() == count).then_some(())
        });
    };
    let counts = |event: &Value| {
        let (act, why) = (event["act"].as_str().unwrap(), event["why"].as_str().unwrap_or(""));
        (
            act.to_owned(),
            why.to_owned(),
            event["sent_bytes"].clone(),
            event["received_bytes"].clone(),
        )
    };
    let address = sessions.forward("one", &["7000"]);
    // A client that is killed with unread input resets its connection.
    let broken = greeted(&address);
    inside("got", 1);
    rustix::net::sockopt::set_socket_linger(&broken, Some(Duration::ZERO)).unwrap();
    drop(broken);
    let found = wait_for("the broken connection is recorded", || {
        events(&sessions, "one").into_iter().find(|event| event["act"] == "connection")
    });
    let (_, why, sent, received) = counts(&found);
    assert_eq!((sent, received), (json!(3), json!(5)), "{found}");
    assert!(why.contains("reset"), "{found}");
    let open = greeted(&address);
    inside("got", 2);
    sessions.text(&["port", "one", "7000", "--close"]);
    let closed = "the port was closed".to_owned();
    let last = |events: &[Value]| events[events.len() - 2..].iter().map(counts).collect::<Vec<_>>();
    let connection = ("connection".to_owned(), closed, json!(3), json!(5));
    let listener = ("closed".to_owned(), String::new(), json!(0), json!(0));
    let found = last(&events(&sessions, "one"));
    assert_eq!(found, [connection, listener]);
    drop(open);
    // At the end of the session.
    let before = events(&sessions, "one").len() + 1;
    let _open = greeted(&sessions.forward("one", &["7000"]));
    inside("got", 3);
    let record = sessions.json(&["inspect", "one"])[0]["record"].as_str().map(str::to_owned);
    sessions.text(&["rm", "--force", "one"]);
    // The client is answered before the record is complete.
    let record = record.expect("a record is kept");
    let ports: Vec<Value> = wait_for("the end is recorded", || {
        let all = sessions.json(&["audit", "show", &record]);
        let ports = all.as_array().unwrap().iter().filter(|event| event["kind"] == "port");
        let ports: Vec<Value> = ports.map(|event| event["body"].clone()).collect();
        (ports.last()?["act"] == "closed" && ports.len() > before).then_some(ports)
    });
    let (act, _, sent, received) = counts(&ports[ports.len() - 2]);
    assert_eq!((&*act, sent, received), ("connection", json!(3), json!(5)), "{ports:?}");
}

#[test]
fn half_close_and_backpressure_pass_through_a_port() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.serve("one", ECHO, "7000");
    let address = sessions.forward("one", &["7000"]);
    assert_eq!(exchange(&address, b"abc").unwrap(), b"abc.");
    // More than every buffer on the way holds.
    let many: Vec<u8> = (0..8_000_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    let answer = exchange(&address, &many).unwrap();
    assert!(answer.len() == many.len() + 1 && answer[..many.len()] == many[..]);
    let endless = "import socket, sys\ns = socket.create_server(('', int(sys.argv[1])))\nprint('ready', flush=True)\n\
        sent = 0\nc, _ = s.accept()\nc.settimeout(2)\ntry:\n    while True: sent += c.send(b'x' * 65536)\n\
        except TimeoutError: print('stopped', sent, flush=True)\n";
    sessions.serve("one", endless, "7001");
    let idle = TcpStream::connect(sessions.forward("one", &["7001"])).unwrap();
    let sent = wait_for("the server stops sending", || {
        let output = sessions.sh("one", "cat out-7001").stdout;
        output.split("stopped ").nth(1)?.trim().parse::<u64>().ok()
    });
    assert!(sent < 32 << 20, "{sent} bytes were taken although nothing reads them");
    drop(idle);
}

#[test]
fn other_user_of_this_machine_cannot_open_a_port() {
    if !is_root() {
        return not_run("only root can be two users");
    }
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.serve("one", ECHO, "7000");
    let address = sessions.forward("one", &["7000"]);
    let (host, port) = address.rsplit_once(':').unwrap();
    let dial = "import socket, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)\n\
                s.sendall(b'secret')\ns.shutdown(1)\nprint(s.recv(100))";
    let as_user = |user: u32| {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", dial, host, port]).current_dir("/").env_clear();
        finish(command.uid(user).gid(user))
    };
    // The same program is answered for the owner.
    assert_eq!(as_user(0).stdout, "b'secret.'\n");
    let refused = as_user(65_534);
    assert!(!refused.stdout.contains("secret"), "{refused:?}");
    assert!(refused.stderr.contains("Connection reset"), "{refused:?}");
    // A socket that no process has any longer could belong to any user.
    let fleeing = "import socket, sys\nfor _ in range(20):\n    \
        s = socket.socket()\n    \
        try: s.connect((sys.argv[1], int(sys.argv[2]))); s.sendall(b'x')\n    \
        except OSError: pass\n    s.close()";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", fleeing, host, port]).current_dir("/").env_clear();
    finish(command.uid(65_534).gid(65_534));
    let found = wait_for("the refusals are recorded", || {
        let found = events(&sessions, "one");
        let refused = found.iter().filter(|event| event["act"] == "refused").count();
        (refused == 21).then_some(found)
    });
    let first = found.iter().find(|event| event["act"] == "refused").unwrap();
    assert_eq!(first["user"], 65_534, "{first}");
    assert!(first["why"].as_str().unwrap().contains("belongs to user 65534"), "{first}");
    let relayed = found.iter().filter(|event| event["act"] == "connection").count();
    assert_eq!(relayed, 1, "only the owner's was relayed");
    assert_eq!(sessions.json(&["port", "one"])[0]["refused"], 21);
}

#[test]
fn policy_refuses_ports_over_its_limit_and_strict_refuses_every_one() {
    let Some(sessions) = Sessions::new() else { return };
    let preset = sessions.text(&["policy", "init", "strict"]);
    let strict = sessions.place.file("strict.yaml", preset);
    sessions.text(&["create", "--name", "strict", "--policy", &strict]);
    let limit = "limits.max_forwarded_ports";
    sessions.refused(
        &["port", "strict", "8000"],
        &format!("{limit} is 0"),
        &format!("set {limit} to 1 or more"),
    );
    let found = events(&sessions, "strict");
    assert_eq!((found.len(), &found[0]["act"]), (1, &json!("denied")), "{found:?}");
    assert_eq!(found[0]["denial"]["control"], "max_forwarded_ports");
    // The same act works where it is allowed.
    let two = sessions.place.file("two.yaml", "limits: {max_forwarded_ports: 2}\n");
    sessions.text(&["create", "--name", "two", "--policy", &two]);
    sessions.forward("two", &["8000"]);
    sessions.forward("two", &["8001"]);
    sessions.refused(&["port", "two", "8002"], &format!("{limit} is 2"), "close a forwarded port");
    sessions.text(&["port", "two", "8001", "--close"]);
    sessions.forward("two", &["8002"]);
}

#[test]
fn addresses_other_than_loopback_and_taken_ones_are_refused() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for address in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0", "[::ffff:127.0.0.1]:0"] {
        sessions.refused(
            &["port", "one", "8000", "--listen", address],
            "only loopback",
            "127.0.0.1:8000",
        );
    }
    sessions.refused(&["port", "one", "8000", "--listen", "here"], "is not an address", "loopback");
    let busy = taken.local_addr().unwrap().to_string();
    sessions.refused(
        &["port", "one", "8000", "--listen", &busy],
        "cannot listen on",
        "another port",
    );
    assert_eq!(sessions.forward("one", &["8000", "--listen", &free]), free);
    let ended = exchange(&free, b"x");
    assert!(ended.as_ref().map_or(true, Vec::is_empty), "nothing listens inside: {ended:?}");
    let refused = wait_for("the failure is recorded", || {
        events(&sessions, "one").into_iter().find(|event| event["act"] == "refused")
    });
    assert!(refused["why"].as_str().unwrap().contains("Connection refused"), "{refused}");
}

#[test]
fn server_of_a_context_and_one_of_ipv6_can_be_reached_and_end_with_the_session() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let code = "import threading, socket\ndef serve(family, host, port):\n    s = socket.create_server((host, port), family=family)\n    \
        def loop():\n        while True:\n            c, _ = s.accept(); c.sendall(host.encode()); c.close()\n    \
        threading.Thread(target=loop, daemon=True).start()\n\
        serve(socket.AF_INET, '127.0.0.1', 7000)\nserve(socket.AF_INET6, '::1', 7001)";
    let words = ["code", "--context", "a", "one", "-"];
    let run = crate::support::finish_with(sessions.command(&words), code.as_bytes());
    assert_eq!(run.code, 0, "{run:?}");
    let (four, six) = (sessions.forward("one", &["7000"]), sessions.forward("one", &["7001"]));
    assert_eq!(exchange(&four, b"").unwrap(), b"127.0.0.1");
    assert_eq!(exchange(&six, b"").unwrap(), b"::1");
    sessions.text(&["rm", "-f", "one"]);
    wait_for("the listener is closed", || TcpStream::connect(&four).is_err().then_some(()));
}
