//! HTTP tools, with a real server on the host's loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::shop::Shop;
use crate::support::{finish, walls_can_be_built};

/// A server that responds by path, and stores its requests.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Debug)]
struct Asked {
    /// The request line and the headers.
    head: String,
    body: String,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let port = listener.local_addr().expect("it has an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                std::thread::spawn(move || answer(stream, &heard));
            }
        });
        Server { port, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nobody panics with it").clone()
    }

    /// A shop with one tool per path, named like the path.
    fn shop(&self, host: &str, more: &str) -> Shop {
        let tool = |name: &str| {
            format!(
                "  - name: {name}\n    http: {{url: 'http://{host}:{}/{name}?x=1'{more}}}\n    input_schema: {{type: object, properties: {{query: {{type: string}}}}}}\n",
                self.port
            )
        };
        let names = ["echo", "missing", "broken", "moved", "long", "text", "cut"];
        Shop::with(&format!("tools:\n{}", names.map(tool).concat()))
    }
}

fn answer(stream: TcpStream, heard: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("the body comes");
    let body = String::from_utf8(body).expect("the body is text");
    heard
        .lock()
        .expect("nobody panics with it")
        .push(Asked { head: head.clone(), body: body.clone() });
    let path = head.split_whitespace().nth(1).unwrap_or_default().split('?').next();
    let (status, answer) = match path.unwrap_or_default() {
        "/echo" => ("200 OK", body),
        "/missing" => ("404 Not Found", "no such paper".to_owned()),
        "/broken" => ("500 Internal Server Error", String::new()),
        "/moved" => ("302 Found\r\nLocation: /echo", String::new()),
        "/long" => ("200 OK", format!("\"{}\"", "x".repeat(3_000_000))),
        "/text" => ("200 OK", "<html>".to_owned()),
        _ => return,
    };
    let length = answer.len();
    let mut stream = reader.into_inner();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // The client may close the connection early.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes()));
}

#[test]
fn endpoint_is_reached_by_address_and_by_name() {
    if !walls_can_be_built() {
        return;
    }
    let server = Server::start();
    for host in ["127.0.0.1", "localhost"] {
        let run = server.shop(host, "").python("print(echo('cs.CL'), echo(query='x')['query'])");
        assert_eq!(run.text(), "{'query': 'cs.CL'} x\n", "{host}");
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[0].body, r#"{"query":"cs.CL"}"#);
    assert!(asked[0].head.starts_with("POST /echo?x=1 HTTP/1.1\r\n"), "{asked:?}");
    let head = asked[2].head.to_lowercase();
    assert!(head.contains(&format!("host: localhost:{}\r\n", server.port)), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
}

#[test]
fn http_statuses_from_400_up_are_tool_errors() {
    if !walls_can_be_built() {
        return;
    }
    let server = Server::start();
    let code = "
from stockade_tools import ToolError
for call in (missing, broken, moved, long, text, cut):
    try:
        print(call.__name__, str(call())[:20])
    except ToolError as error:
        print(call.__name__, error.code, error)
print(echo('good'))
";
    let run = server.shop("127.0.0.1", "").python(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines[0], "missing failed the tool's server answered 404 Not Found: no such paper");
    assert_eq!(lines[1], "broken failed the tool's server answered 500 Internal Server Error");
    assert!(lines[2].starts_with("moved failed ") && lines[2].contains("302"), "{}", lines[2]);
    assert!(lines[3].starts_with("long too_large "), "{}", lines[3]);
    assert!(lines[4].starts_with("text invalid_result "), "{}", lines[4]);
    assert!(lines[5].starts_with("cut broken "), "{}", lines[5]);
    assert_eq!(lines[6], "{'query': 'good'}");
    assert!(server.asked().iter().filter(|asked| asked.head.contains("/echo")).count() == 1);
}

#[test]
fn unreachable_server_and_unresolvable_name_fail_only_their_call() {
    if !walls_can_be_built() {
        return;
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = Server { port: closed, asked: Arc::default() };
    for host in ["127.0.0.1", "nowhere.invalid"] {
        let run = nobody.shop(host, "").shell("stockade-tool echo '{}'; stockade-tool --list");
        assert!(run.stderr.contains("the tool's server cannot be reached"), "{host}: {run:?}");
        assert!(run.text().contains("echo"), "the run goes on: {run:?}");
    }
}

#[test]
fn secret_header_reaches_only_the_server() {
    if !walls_can_be_built() {
        return;
    }
    let server = Server::start();
    let more = ", headers: {X-Kind: plain}, headers_from: {Authorization: 'env:PAPER_TOKEN'}";
    let shop = server.shop("127.0.0.1", more);
    let code = "import os; print(echo('x')); print(os.environ); print(open('/run/stockade/tools.json').read())";
    let mut command = shop.command(&["--json", "--", "python3", "-c", code]);
    let run = finish(command.env("PAPER_TOKEN", "hunter2"));
    let report = run.text();
    assert!(!report.contains("hunter2") && !run.stderr.contains("hunter2"), "{report}");
    let head = server.asked()[0].head.to_lowercase();
    assert!(head.contains("authorization: hunter2\r\n") && head.contains("x-kind: plain\r\n"));
    let unset = shop.run(&["--", "echo", "it ran"]);
    assert_eq!((unset.code, unset.stdout.as_str()), (125, ""), "{unset:?}");
    assert!(unset.stderr.contains("PAPER_TOKEN"), "{unset:?}");
}
