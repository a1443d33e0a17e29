//! TLS with a server name that is not the allowed one, TLS without a server name, and bytes that
//! are not TLS.

use crate::support::{Place, Watch, direct, inside, internet, report, tests};

tests![
    h18_server_name_must_be_the_allowed_one,
    h18_fragmented_client_hello_is_reassembled,
    h18_client_hello_without_a_server_name_is_refused,
    h18_other_protocols_are_refused_on_the_tls_port,
    h19_domain_fronting_is_not_detected_and_the_record_shows_the_inspection,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];
const WAYS: [&str; 2] = ["name", "proxy"];

fn hello<'a>(way: &'a str, name: &'a str, shape: &'a str) -> [&'a str; 7] {
    ["python3", "-c", include_str!("programs/hello.py"), way, "files.test", name, shape]
}

/// The output of a program inside that sends this ClientHello.
fn said(way: &str, name: &str, shape: &str) -> String {
    inside(&FILES, &hello(way, name, shape)).text().trim().to_owned()
}

fn reached() -> String {
    format!("reached {} files.test", internet().token())
}

/// Asserts a refusal by the alert `access_denied`, or by closing the connection.
#[track_caller]
fn is_refused(said: &str) {
    assert!(said == "alert 49" || said.starts_with("closed"), "{said}");
}

fn h18_server_name_must_be_the_allowed_one() {
    let place = Place::new();
    for name in [place.name.as_str(), "www.files.test"] {
        assert_eq!(direct(&hello("name", name, "whole")).text().trim(), reached());
        for way in WAYS {
            let watch = Watch::start();
            is_refused(&said(way, name, "whole"));
            let greeted =
                |entry: &stockade_internet::LogEntry| entry.event == "hello" && entry.name == name;
            assert_eq!(watch.seen(greeted), []);
        }
    }
    for way in WAYS {
        assert_eq!(said(way, "files.test", "whole"), reached());
        assert_eq!(said(way, "FILES.test", "whole"), reached());
    }
}

fn h18_fragmented_client_hello_is_reassembled() {
    let place = Place::new();
    for shape in ["records", "bytes"] {
        for way in WAYS {
            assert_eq!(said(way, "files.test", shape), reached(), "{shape} by {way}");
            is_refused(&said(way, &place.name, shape));
        }
    }
}

fn h18_client_hello_without_a_server_name_is_refused() {
    for (name, shape) in [("-", "whole"), ("-", "old")] {
        let answer = direct(&hello("name", name, shape)).text().trim().to_owned();
        assert!(answer == reached() || answer.starts_with("alert"), "{answer}");
        for way in WAYS {
            is_refused(&said(way, name, shape));
        }
    }
}

fn h18_other_protocols_are_refused_on_the_tls_port() {
    for way in WAYS {
        let watch = Watch::start();
        let ssh = said(way, "files.test", "ssh");
        assert!(!ssh.starts_with("answered") || ssh.contains("HTTP/1.1 4"), "{ssh}");
        let heard = |entry: &stockade_internet::LogEntry| entry.detail.contains("SSH-2.0-client");
        assert_eq!(watch.seen(heard), []);
    }
    // Plain HTTP for another host on an allowed connection.
    let place = Place::new();
    for way in WAYS {
        let watch = Watch::start();
        let answer = said(way, &place.name, "http");
        assert!(!answer.contains("HTTP/1.1 200"), "{answer}");
        let request = |entry: &stockade_internet::LogEntry| entry.name == place.name;
        assert_eq!(watch.seen(request), []);
    }
}

fn h19_domain_fronting_is_not_detected_and_the_record_shows_the_inspection() {
    // A known gap: the gate does not see the Host header inside TLS.
    let words = ["curl", "-sS", "-H", "Host: other.test", "https://files.test/"];
    let expected = format!("{} other.test\n", internet().token());
    assert_eq!(direct(&words).text(), expected);
    let report = report(&FILES, &words);
    assert_eq!(report["stdout"], expected);
    let record = report["record"].as_str().expect("the report names the record");
    let record = std::fs::read_to_string(record).expect("the record can be read");
    let of_files = |line: &&str| line.contains("\"files.test\"") && line.contains("inspection");
    let line = record.lines().find(of_files).unwrap_or_else(|| panic!("{record}"));
    assert!(line.contains("\"inspection\":\"server_name\""), "{line}");
}
