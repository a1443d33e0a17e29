//! Exhausting the gate, and the limits that prevent it.

use crate::support::{command, direct, inside, internet, start, tests, with_policy};

tests![
    h30_connection_flood_is_bounded_per_sandbox,
    h30_endless_request_heads_get_431,
    h34_bytes_over_the_limit_are_not_relayed,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

fn h30_connection_flood_is_bounded_per_sandbox() {
    let script = "
import socket, sys
held, refused = [], 0
for _ in range(300):
    try:
        talk = socket.create_connection(('files.test', 80), 5)
        talk.sendall(b'GET / HTTP/1.1\\r\\n')
        held.append(talk)
    except OSError:
        refused += 1
for talk in held:
    talk.settimeout(0.01)
    try:
        refused += talk.recv(1) == b'' or 1
    except TimeoutError:
        pass
    except OSError:
        refused += 1
print('refused', refused, flush=True)
sys.stdin.readline()
";
    let mut greedy = start(command(&FILES, &["python3", "-c", script]));
    let said = greedy.hear();
    let refused: u32 = said.trim_start_matches("refused ").parse().expect(&said);
    // By default 64 connections at once, and as many more that get a denial before they close.
    assert!((300 - 2 * 64..=300 - 32).contains(&refused), "{said}");
    let run = inside(&FILES, &["curl", "-sS", "-m", "10", "https://files.test/"]);
    assert_eq!(run.text(), format!("{} files.test\n", internet().token()));
    greedy.say("");
}

fn h30_endless_request_heads_get_431() {
    let script = "
import os, socket, threading, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
def pour(talk):
    try:
        while True:
            talk.sendall(b'X: ' + b'a' * 1000 + b'\\r\\n')
    except OSError:
        pass
for target in ((proxy.hostname, proxy.port), ('files.test', 80)):
    talk = socket.create_connection(target, 20)
    talk.sendall(b'GET http://files.test/ HTTP/1.1\\r\\nHost: files.test\\r\\n')
    threading.Thread(target=pour, args=[talk], daemon=True).start()
    answer = b''.join(iter(lambda: talk.recv(4096), b''))
    print(answer[:12])
    talk.close()
";
    let run = inside(&FILES, &["python3", "-c", script]);
    assert_eq!(run.text(), "b'HTTP/1.1 431'\n".repeat(2));
}

fn h34_bytes_over_the_limit_are_not_relayed() {
    let policy = "network_allowlist: [ files.test ]\nlimits: { max_egress_bytes: 100000 }\n";
    let few = [
        "curl",
        "-sS",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
        "http://files.test/large?bytes=1000",
    ];
    assert_eq!(with_policy(policy, &few).text(), "1000");
    let upload = "import urllib.request\n\
                  urllib.request.urlopen('http://files.test/upload', data=bytes(5000000)).read()";
    let download = ["curl", "-sS", "-o", "/dev/null", "http://files.test/large?bytes=5000000"];
    for words in [&["python3", "-c", upload][..], &download] {
        assert_eq!(direct(words).code, 0);
        let run = with_policy(policy, words);
        assert_eq!(run.code, 122, "{run:?}");
        assert!(run.stderr.contains("limits.max_egress_bytes"), "{run:?}");
    }
}
