//! What reports and records contain about denials, and what they omit.

use serde_json::Value;

use crate::conversation::{Said, converse};
use crate::support::{Token, finish, inside, report, stockade, tests};

tests![
    denial_is_in_the_report_with_how_to_allow_it,
    denial_is_identical_for_program_result_record_and_suggest,
    learned_policy_allows_exactly_the_same_run,
    h37_strange_names_do_not_reach_a_terminal,
    h37_url_queries_are_not_recorded,
    h09_name_server_returns_the_reason_of_a_refusal,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

fn denial_is_in_the_report_with_how_to_allow_it() {
    let report = report(&FILES, &["curl", "-sS", "-m", "5", "https://other.test/"]);
    let denials = report["denials"].as_array().cloned().unwrap_or_default();
    let of_other = |denial: &&serde_json::Value| {
        denial["target"].as_str().is_some_and(|target| target.contains("other.test"))
    };
    let denial = denials.iter().find(of_other).unwrap_or_else(|| panic!("{report}"));
    for key in ["control", "rule", "target", "why", "how_to_allow"] {
        assert!(denial[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {denial}");
    }
    assert!(denial["how_to_allow"].to_string().contains("other.test"), "{denial}");
}

fn denial_is_identical_for_program_result_record_and_suggest() {
    let folder = tempfile::tempdir().expect("there is room for a record");
    let records = folder.path().join("records");
    let flags = ["--record", records.to_str().expect("the path is text")];
    let report = report(&[&flags[..], &FILES].concat(), &["curl", "-s", "http://other.test/"]);
    let told = &report["denials"][0];
    let body: Value = serde_json::from_str(report["stdout"].as_str().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {report}"));
    assert_eq!((&body, &body["target"]), (told, &"other.test:80".into()));
    let record = report["record"].as_str().expect("a record was kept");
    let record = std::fs::read_to_string(record).expect("it can be read");
    let events: Vec<Value> = record
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an event"))
        .collect();
    let of_gate: Vec<&Value> = events
        .iter()
        .filter(|event| event["kind"] == "egress")
        .map(|event| &event["body"]["denial"])
        .collect();
    assert_eq!(of_gate, [told], "{record}");
    let words = ["policy", "suggest", report["record"].as_str().unwrap_or_default()];
    let suggested = finish(stockade(&words));
    assert!(suggested.stdout.contains("- \"other.test:80\""), "{suggested:?}");
}

fn learned_policy_allows_exactly_the_same_run() {
    let folder = tempfile::tempdir().expect("there is room for a policy");
    let file = folder.path().join("learned.yaml");
    let file = file.to_str().expect("the path is text");
    let curl = |url| ["curl", "-sS", "-m", "5", url];
    let both = |flag, path| {
        let script = format!(
            "curl -sS -m 5 https://files.test/ && curl -sS -f -m 5 http://other.test{path}"
        );
        let run = inside(&[flag, file], &["sh", "-c", &script]);
        assert!(run.has_token(), "{run:?}");
        run.code
    };
    assert_eq!(both("--learn", "/"), 0);
    let learned = std::fs::read_to_string(file).expect("a policy was written");
    // TLS is not opened, so its requests are not known.
    assert!(learned.contains("- { host: \"files.test\", ports: [443] }"), "{learned}");
    let plain = "{ host: \"other.test\", ports: [80], methods: [GET], paths: [\"/\"] }";
    assert!(learned.contains(plain), "{learned}");
    assert_eq!(both("--policy", "/"), 0);
    assert_eq!(both("--policy", "/echo"), 22, "curl ends with 22 after a 403");
    assert!(!inside(&["--policy", file], &curl("https://other.test/")).has_token());
    // Learning does not allow private addresses.
    std::fs::remove_file(file).expect("a learned file is not replaced");
    assert!(!inside(&["--learn", file], &curl("http://private.test/")).has_token());
}

fn h37_strange_names_do_not_reach_a_terminal() {
    let long = "a".repeat(60_000);
    let script = "
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
for name in ('evil\\x1b[31m.test', 'evil\\x1b]0;title\\x07.test', 'evil\\x9b31m.test', 'a' * 60000 + '.test'):
    talk = socket.create_connection((proxy.hostname, proxy.port), 5)
    try:
        talk.sendall(f'CONNECT {name}:443 HTTP/1.1\\r\\nHost: {name}:443\\r\\n\\r\\n'.encode())
        talk.recv(4096)
    except OSError:
        pass
";
    let run = inside(&FILES, &["python3", "-c", script]);
    assert_eq!(run.code, 0, "{run:?}");
    for byte in ['\u{1b}', '\u{7}', '\u{9b}'] {
        assert!(!run.stderr.contains(byte), "{:?}", run.stderr);
    }
    assert!(run.stderr.len() < 20_000, "{} bytes", run.stderr.len());
    assert!(!run.stderr.contains(&long[..5000]));
    let heard = converse(&FILES, &[Said::connect("evil\u{1b}[31m.test:443")]);
    assert!(!heard[0].0.contains('\u{1b}'), "{heard:?}");
}

fn h37_url_queries_are_not_recorded() {
    let words = ["curl", "-sS", "http://files.test/?key=hunter2", "http://other.test/?key=hunter2"];
    let report = report(&FILES, &words);
    assert!(!report["denials"].to_string().contains("hunter2"), "{report}");
    let mut rest = report.clone();
    rest["stdout"] = "".into();
    assert!(!rest.to_string().contains("hunter2"), "{rest}");
}

fn h09_name_server_returns_the_reason_of_a_refusal() {
    // An extended DNS error: option 15 in the response to a query with EDNS.
    let script = "
import socket
name = b''.join(bytes([len(part)]) + part for part in b'other.test'.split(b'.')) + b'\\0'
question = bytes.fromhex('000701000001000000000001') + name + bytes.fromhex('00010001')
question += bytes.fromhex('0000290fa0000000000000')
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.settimeout(5)
asker.sendto(question, ('127.0.0.53', 53))
answer = asker.recv(4096)
print(answer[3] & 15, answer[len(question):].decode('latin-1').isprintable(), b'other.test' in answer or b'allow' in answer)
print(answer)
";
    let run = inside(&FILES, &["python3", "-c", script]);
    assert!(run.text().starts_with("3 "), "NXDOMAIN was expected: {run:?}");
    assert!(run.stdout.contains("allow"), "the reason was expected: {run:?}");
}
