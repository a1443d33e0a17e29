//! Secrets of a session: their values are replaced while programs run, and never enter.

use std::io::{Read, Seek, SeekFrom};
use std::process::Command;

use stockade_testing::Conversation;

use crate::support::{Run, Sessions, finish_with, is_root, wait_for};

/// A server over TLS that prints the Authorization of each request.
const SERVER: &str = r#"
import http.server, ssl, sys, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.headers.get("Authorization"), flush=True)
        body = str(self.headers).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
"#;

/// Asks once for each line of input, with the same placeholder throughout.
const PROGRAM: &str = r#"
import os, sys, urllib.request
for line in sys.stdin:
    request = urllib.request.Request(f"https://127.0.0.1:{sys.argv[1]}/")
    request.add_header("Authorization", "Bearer " + os.environ["API_KEY"])
    with urllib.request.urlopen(request, timeout=20) as answer:
        print(answer.status, [it for it in answer.read().decode().splitlines() if "Bearer" in it], flush=True)
"#;

const FIRST: &str = "sk-4b8E1a6C9d2F7b3A5c0E";
const SECOND: &str = "sk-9f2D6c1B8a4E3f7C0b5A";
const THIRD: &str = "sk-0a7C3e9F5b1D8c2E6a4B";

/// A session with a secret for a server of this machine.
struct World {
    sessions: Sessions,
    server: Conversation,
    port: String,
}

impl World {
    fn new() -> Option<World> {
        let sessions = Sessions::new()?;
        let (key, certificate) = ("key.pem", "certificate.pem");
        let place = |name: &str| sessions.place.path().join(name).display().to_string();
        let mut make = Command::new("openssl");
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        make.args(["-nodes", "-days", "2", "-subj", "/CN=test"]);
        make.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
        make.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        make.args(["-keyout", &place(key), "-out", &place(certificate)]);
        assert_eq!(stockade_testing::finish(make).code, 0, "openssl makes a certificate");
        let mut serve = Command::new("python3");
        serve.args(["-c", SERVER, &place(certificate), &place(key)]);
        let mut server = Conversation::start(serve);
        let port = server.hear();
        let value = sessions.place.file("value", format!("{FIRST}\n"));
        let policy = format!(
            "version: \"2\"\nnetwork_allowlist: [{{host: 127.0.0.1, ports: [{port}]}}]\n\
             secrets:\n  - {{name: API_KEY, from: 'file:{value}', hosts: [127.0.0.1], \
             header: Authorization, format: 'Bearer {{}}'}}\n"
        );
        let policy = sessions.place.file("policy.yaml", policy);
        let mut create = sessions.command(&["create", "--name", "one", "--policy", &policy]);
        create.env("SSL_CERT_FILE", place(certificate));
        assert_eq!(stockade_testing::finish(create).text(), "one\n");
        Some(World { sessions, server, port })
    }

    /// A program that keeps running.
    fn program(&self) -> Conversation {
        let words = ["exec", "-i", "one", "--", "python3", "-c", PROGRAM, &self.port];
        Conversation::start(self.sessions.command(&words))
    }

    /// One request of the program: what it got, and what the server got.
    fn ask(&mut self, program: &mut Conversation) -> (String, String) {
        program.say("ask");
        (program.hear(), self.server.hear())
    }

    fn set(&self, value: &str) -> Run {
        let set = self.sessions.command(&["secret", "set", "one", "API_KEY"]);
        finish_with(set, value.as_bytes())
    }

    /// The record, as `audit show` prints it with these options.
    fn record(&self, options: &[&str]) -> String {
        let view = self.sessions.json(&["inspect", "one"]);
        let record = view[0]["record"].as_str().expect("a record is kept");
        self.sessions.text(&[options, &["audit", "show", record]].concat())
    }
}

#[test]
fn replaced_secret_is_sent_by_a_program_that_already_runs() {
    let Some(mut world) = World::new() else { return };
    let mut program = world.program();
    let (got, seen) = world.ask(&mut program);
    assert_eq!(seen, format!("Bearer {FIRST}"));
    assert!(got.starts_with("200 ") && got.contains("***"), "{got}");
    assert_eq!(world.set(&format!("{SECOND}\n")).text(), "API_KEY\n");
    let (got, seen) = world.ask(&mut program);
    assert_eq!(seen, format!("Bearer {SECOND}"));
    assert!(got.starts_with("200 ") && got.contains("***"), "{got}");
    // From a variable of the caller, whose value no command line shows.
    let words = ["--json", "secret", "set", "one", "API_KEY", "--from", "env:NEW_KEY"];
    let mut set = world.sessions.command(&words);
    set.env("NEW_KEY", THIRD);
    let run = stockade_testing::finish(set);
    assert_eq!(run.json(), serde_json::json!({"session": "one", "secret": "API_KEY"}));
    assert_eq!(world.ask(&mut program).1, format!("Bearer {THIRD}"));
    // A new program has the same placeholder.
    let mut other = world.program();
    assert_eq!(world.ask(&mut other).1, format!("Bearer {THIRD}"));
    let record = world.record(&["--json"]);
    assert_eq!(record.matches("\"secret_replaced\"").count(), 2, "{record}");
    for value in [FIRST, SECOND, THIRD] {
        assert!(!record.contains(value), "{record}");
    }
    let shown = world.record(&[]);
    assert!(shown.contains("the secret API_KEY has a new value"), "{shown}");
}

#[test]
fn unusable_or_unknown_secret_is_refused_and_the_old_value_stays() {
    let Some(mut world) = World::new() else { return };
    let run = world.set("short");
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("shorter than 8 characters"), "{run:?}");
    let run = world.set("with\na line end in it");
    assert_eq!(run.code, 125, "{run:?}");
    assert!(!run.stderr.contains("in it"), "the value is not repeated: {run:?}");
    let words = ["secret", "set", "one", "OTHER", "--from", "env:PATH"];
    world.sessions.refused(&words, "this session has no secret OTHER", "name a secret");
    let words = ["secret", "set", "two", "API_KEY", "--from", "env:PATH"];
    assert_eq!(world.sessions.run(&words).code, 125);
    let mut program = world.program();
    assert_eq!(world.ask(&mut program).1, format!("Bearer {FIRST}"));
    assert!(!world.record(&["--json"]).contains("secret_replaced"));
}

/// Looks into the memory of every process of the sandbox from outside, where nothing hides it.
#[test]
fn value_is_in_the_memory_of_no_process_inside() {
    let Some(mut world) = World::new() else { return };
    if !is_root() {
        return stockade_testing::not_run("only root may read the memory of these processes");
    }
    let mut program = world.program();
    assert_eq!(world.ask(&mut program).1, format!("Bearer {FIRST}"));
    world.set(SECOND).text();
    assert_eq!(world.ask(&mut program).1, format!("Bearer {SECOND}"));
    let supervisor = world.sessions.supervisor("one");
    let inside = wait_for("the program runs", || {
        let found = descendants(supervisor);
        (found.len() >= 2).then_some(found)
    });
    let holder = |value: &str, pid: u32| memory_has(pid, value.as_bytes());
    assert!(holder(SECOND, supervisor), "the search finds the value where it must be");
    for pid in inside {
        for value in [FIRST, SECOND] {
            assert!(!holder(value, pid), "process {pid} has {value}: {}", command_line(pid));
        }
    }
}

fn command_line(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Every process below another.
fn descendants(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    });
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

/// Whether a process has these bytes in any readable part of its memory.
fn memory_has(pid: u32, bytes: &[u8]) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(mut memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    maps.lines().filter(|line| !line.contains("[v")).any(|line| {
        let mut words = line.split(' ');
        let range = words.next().and_then(|range| range.split_once('-'));
        let is_readable = words.next().is_some_and(|rights| rights.starts_with('r'));
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((Some(start), Some(end))) = range.map(|(a, b)| (parse(a), parse(b))) else {
            return false;
        };
        let mut held = Vec::new();
        is_readable && memory.seek(SeekFrom::Start(start)).is_ok() && {
            let _ = (&mut memory).take(end - start).read_to_end(&mut held);
            held.windows(bytes.len()).any(|part| part == bytes)
        }
    })
}
