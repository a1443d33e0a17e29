//! Allowed connections: by name, through the proxy, and with servers inside on the same ports.

use crate::support::{
    Place, Watch, direct, inside, internet, reaches_only_without_wall, tests, with_policy,
};

tests![
    allowed_host_is_reached_and_its_server_sees_it,
    host_that_is_not_allowed_gets_the_reason,
    allowed_host_is_reached_without_any_variable,
    plain_http_works_by_name_and_through_the_proxy,
    large_response_and_upload_arrive_complete,
    connection_ends_with_eof_instead_of_a_reset,
    slow_reader_gets_everything,
    h22_websocket_works_by_name_and_through_the_proxy,
    server_that_speaks_first_is_reached_with_protocol_tcp,
    servers_inside_can_use_the_ports_of_the_gate,
    alias_of_a_public_name_is_reached,
    name_with_only_an_ipv6_address_is_reached,
    dns_response_too_long_for_a_datagram_is_resolved,
    allowed_address_literal_is_reached_through_the_proxy,
    allowed_name_that_does_not_resolve_gets_502,
    slow_name_server_does_not_block_other_requests,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

/// `-f` would hide the body of a denial.
const CURL: [&str; 4] = ["curl", "-sS", "-m", "10"];

fn curl<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&CURL[..], words].concat()
}

fn body(host: &str) -> String {
    format!("{} {host}\n", internet().token())
}

fn allowed_host_is_reached_and_its_server_sees_it() {
    let words = curl(&["https://files.test/"]);
    assert_eq!(direct(&words).text(), body("files.test"));
    let watch = Watch::start();
    let run = inside(&FILES, &words);
    assert_eq!(run.text(), body("files.test"));
    assert_eq!(run.messages(), "");
    let request = |entry: &stockade_internet::LogEntry| {
        entry.server == "https" && entry.event == "request" && entry.name == "files.test"
    };
    watch.wait("the request", request);
}

fn host_that_is_not_allowed_gets_the_reason() {
    let place = Place::new();
    let url = format!("http://{}/", place.name);
    let run = reaches_only_without_wall(&place, &FILES, &curl(&[&url]));
    let denial: serde_json::Value = run.json();
    assert_eq!(denial["target"].as_str().map(|target| target.contains(&place.name)), Some(true));
    for key in ["control", "rule", "why", "how_to_allow"] {
        assert!(denial[key].is_string(), "{key}: {denial}");
    }
    assert!(run.stderr.contains(&format!("denied {}", place.name)), "{}", run.stderr);

    let url = format!("https://{}/", place.name);
    let run = reaches_only_without_wall(&place, &FILES, &curl(&[&url]));
    assert_eq!(run.code, 56, "curl says that the proxy refused: {run:?}");
    assert!(run.stderr.contains("403"), "{}", run.stderr);
}

fn allowed_host_is_reached_without_any_variable() {
    for extra in [&["--noproxy", "*"][..], &[]] {
        let words = [&["env", "-i"], &CURL[..], extra, &["https://files.test/"]].concat();
        assert_eq!(direct(&words).text(), body("files.test"));
        assert_eq!(inside(&FILES, &words).text(), body("files.test"));
    }
}

fn plain_http_works_by_name_and_through_the_proxy() {
    for extra in [&["--noproxy", "*"][..], &[]] {
        let words =
            [&CURL[..], extra, &["http://files.test/", "http://files.test/chunked"]].concat();
        let expected = format!("{}{}\n", body("files.test"), internet().token());
        assert_eq!(direct(&words).text(), expected);
        assert_eq!(inside(&FILES, &words).text(), expected);
    }
}

fn large_response_and_upload_arrive_complete() {
    let script = "
import hashlib, sys, urllib.request
proxy = {} if sys.argv[1] == 'name' else None
ask = urllib.request.build_opener(urllib.request.ProxyHandler(proxy)).open
for scheme in ('http', 'https'):
    print(len(ask(f'{scheme}://files.test/large?bytes=20000000').read()))
    print(ask(f'{scheme}://files.test/upload', data=bytes(3000001)).read())
";
    for way in ["name", "proxy"] {
        let run = inside(&FILES, &["python3", "-c", script, way]);
        assert_eq!(run.text(), "20000000\nb'3000001\\n'\n".repeat(2));
    }
}

fn connection_ends_with_eof_instead_of_a_reset() {
    let script = "
import os, socket, ssl, sys, urllib.parse
def by_name(port):
    return socket.create_connection(('files.test', port), 5)
def by_proxy(port):
    proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
    talk = socket.create_connection((proxy.hostname, proxy.port), 5)
    talk.sendall(f'CONNECT files.test:{port} HTTP/1.1\\r\\nHost: files.test:{port}\\r\\n\\r\\n'.encode())
    head = b''
    while not head.endswith(b'\\r\\n\\r\\n'):
        head += talk.recv(1)
    return talk
def ask(talk):
    talk.sendall(b'GET /unmeasured HTTP/1.1\\r\\nHost: files.test\\r\\n\\r\\n')
    return b''.join(iter(lambda: talk.recv(65536), b'')).partition(b'\\r\\n\\r\\n')[2].decode()
for connect in (by_name, by_proxy)[:int(sys.argv[1])]:
    print(ask(connect(80)), end='')
    secure = ssl.create_default_context().wrap_socket(connect(443), server_hostname='files.test')
    print(ask(secure), end='')
";
    let expected = format!("{}\n", internet().token());
    assert_eq!(direct(&["python3", "-c", script, "1"]).text(), expected.repeat(2));
    assert_eq!(inside(&FILES, &["python3", "-c", script, "2"]).text(), expected.repeat(4));
    for extra in [&["--noproxy", "*"][..], &[]] {
        let words = [&CURL[..], extra, &["http://files.test/unmeasured"]].concat();
        assert_eq!(inside(&FILES, &words).text(), expected);
    }
}

fn slow_reader_gets_everything() {
    let script = "
import socket, time
talk = socket.create_connection(('files.test', 80), 5)
talk.sendall(b'GET /large?bytes=2000000 HTTP/1.1\\r\\nHost: files.test\\r\\nConnection: close\\r\\n\\r\\n')
head = b''
while not head.endswith(b'\\r\\n\\r\\n'):
    head += talk.recv(1)
time.sleep(2)
print(len(b''.join(iter(lambda: talk.recv(65536), b''))))
";
    let words = ["python3", "-c", script];
    assert_eq!(direct(&words).text(), "2000000\n");
    assert_eq!(inside(&FILES, &words).text(), "2000000\n");
}

fn h22_websocket_works_by_name_and_through_the_proxy() {
    let script = include_str!("programs/websocket.py");
    for url in ["ws://files.test/ws", "wss://files.test/ws"] {
        assert_eq!(direct(&["python3", "-c", script, "name", url]).text(), "hello 70000\n");
        for way in ["name", "proxy"] {
            let run = inside(&FILES, &["python3", "-c", script, way, url]);
            assert_eq!(run.text(), "hello 70000\n", "{url} by {way}");
        }
    }
    let place = Place::new();
    for (scheme, way) in [("ws", "name"), ("wss", "name")] {
        let url = format!("{scheme}://{}/ws", place.name);
        let words = ["python3", "-c", script, way, &url];
        let run = reaches_only_without_wall(&place, &FILES, &words);
        assert_ne!(run.code, 0, "{run:?}");
    }
}

fn server_that_speaks_first_is_reached_with_protocol_tcp() {
    let script = "
import socket
talk = socket.create_connection(('ssh.test', 22), 5).makefile('rwb', buffering=0)
print(talk.readline())
talk.write(b'more\\n')
print(talk.readline())
";
    let words = ["python3", "-c", script];
    let expected = "b'SSH-2.0-stockade_internet\\r\\n'\nb'more\\n'\n";
    assert_eq!(direct(&words).text(), expected);
    let policy = |protocol: &str| {
        format!("network_allowlist:\n  - {{ host: ssh.test, ports: [22]{protocol} }}\n")
    };
    let run = with_policy(&policy(", protocol: tcp"), &words);
    assert_eq!(run.text(), expected);
    // Without `protocol: tcp` the gate waits for the client's first bytes, which are neither TLS
    // nor HTTP.
    let first = script.replace("print(talk.readline())\ntalk", "talk");
    let run = with_policy(&policy(""), &["python3", "-c", &first]);
    assert!(!run.stdout.contains("SSH"), "{run:?}");
    assert!(!run.stdout.contains("more"), "{run:?}");
}

fn servers_inside_can_use_the_ports_of_the_gate() {
    let script = "
import http.server, threading, urllib.request
class Own(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'own')
    def log_message(self, *words):
        pass
for port in (53, 80, 443, 3128, 8080):
    server = http.server.ThreadingHTTPServer(('0.0.0.0', port), Own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for port in (53, 80, 443, 3128, 8080):
    assert plain.open(f'http://127.0.0.1:{port}/').read() == b'own', port
    assert plain.open(f'http://localhost:{port}/').read() == b'own', port
for ask in (plain.open, urllib.request.urlopen):
    for url in ('http://files.test/', 'https://files.test/'):
        print(ask(url).read().decode(), end='')
";
    let run = inside(&FILES, &["python3", "-c", script]);
    assert_eq!(run.text(), body("files.test").repeat(4));
}

fn alias_of_a_public_name_is_reached() {
    let words = curl(&["https://cname.test/"]);
    assert_eq!(direct(&words).text(), body("cname.test"));
    assert_eq!(inside(&["--allow-host", "cname.test"], &words).text(), body("cname.test"));
}

fn name_with_only_an_ipv6_address_is_reached() {
    let words = curl(&["https://onlysix.test/"]);
    assert_eq!(direct(&words).text(), body("onlysix.test"));
    assert_eq!(inside(&["--allow-host", "onlysix.test"], &words).text(), body("onlysix.test"));
}

fn dns_response_too_long_for_a_datagram_is_resolved() {
    let words = curl(&["https://large.test/"]);
    assert_eq!(direct(&words).text(), body("large.test"));
    assert_eq!(inside(&["--allow-host", "large.test"], &words).text(), body("large.test"));
}

fn allowed_address_literal_is_reached_through_the_proxy() {
    let place = Place::new();
    let literal = place.address.to_string();
    let words = curl(&[&format!("https://{literal}/")])
        .iter()
        .map(|word| (*word).to_owned())
        .collect::<Vec<_>>();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(direct(&words).text(), body(&literal));
    assert_eq!(inside(&["--allow-host", &literal], &words).text(), body(&literal));
    let other = Place::new();
    let url = format!("https://{}/", other.address);
    reaches_only_without_wall(&other, &["--allow-host", &literal], &curl(&[&url]));
}

fn allowed_name_that_does_not_resolve_gets_502() {
    let words = curl(&["-w", "%{http_code}", "http://nowhere.test/"]);
    assert_eq!(direct(&words).code, 6, "curl says that it cannot resolve");
    let run = inside(&["--allow-host", "nowhere.test"], &words);
    assert!(run.stdout.ends_with("502"), "{run:?}");
    assert!(run.stdout.contains("nowhere.test"), "{run:?}");
}

fn slow_name_server_does_not_block_other_requests() {
    let script = "
import threading, time, urllib.request
def slow():
    try:
        urllib.request.urlopen('http://slow.test/', timeout=30).read()
    except OSError:
        pass
    print('slow')
waiting = threading.Thread(target=slow)
waiting.start()
print(urllib.request.urlopen('http://files.test/', timeout=5).read().decode().split()[1])
waiting.join()
";
    let flags = ["--allow-host", "files.test", "--allow-host", "slow.test"];
    let run = inside(&flags, &["python3", "-c", script]);
    assert_eq!(run.text(), "files.test\nslow\n");
}
