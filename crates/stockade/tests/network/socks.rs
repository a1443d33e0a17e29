//! SOCKS through the proxy inside.

use crate::conversation::{Heard, Said, converse};
use crate::support::{Place, Watch, inside, internet, tests};

tests![
    h26_socks_reaches_allowed_hosts_only,
    h26_socks_supports_only_connect,
    h26_malformed_socks_names_are_refused,
    curl_works_with_socks5_and_socks5h,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];
const CONNECT: u8 = 1;
const BIND: u8 = 2;
const ASSOCIATE: u8 = 3;

/// A whole SOCKS 5 exchange: no authentication, a command, a name, a port, then a request.
fn five(command: u8, name: &[u8], port: u16) -> Said {
    let mut bytes = vec![5, 1, 0, 5, command, 0, 3, u8::try_from(name.len()).unwrap_or(255)];
    bytes.extend(name);
    bytes.extend(port.to_be_bytes());
    bytes.extend(b"GET / HTTP/1.1\r\nHost: files.test\r\nConnection: close\r\n\r\n");
    Said { bytes, answers: 2 }
}

/// A SOCKS 5 exchange with an address.
fn five_by_address(command: u8, address: [u8; 4], port: u16) -> Said {
    let mut bytes = vec![5, 1, 0, 5, command, 0, 1];
    bytes.extend(address);
    bytes.extend(port.to_be_bytes());
    Said { bytes, answers: 2 }
}

/// SOCKS 4, or 4a with a name.
fn four(name: Option<&str>, address: [u8; 4], port: u16) -> Said {
    let mut bytes = vec![4, CONNECT];
    bytes.extend(port.to_be_bytes());
    bytes.extend(address);
    bytes.extend(b"user\0");
    if let Some(name) = name {
        bytes.extend(name.as_bytes());
        bytes.push(0);
    }
    bytes.extend(b"GET / HTTP/1.1\r\nHost: files.test\r\nConnection: close\r\n\r\n");
    Said { bytes, answers: 2 }
}

fn reached(heard: &Heard) -> bool {
    heard.0.contains(internet().token())
}

fn h26_socks_reaches_allowed_hosts_only() {
    let (place, watch) = (Place::new(), Watch::start());
    let heard = converse(
        &FILES,
        &[
            five(CONNECT, b"files.test", 80),
            four(Some("files.test"), [0, 0, 0, 1], 80),
            five(CONNECT, place.name.as_bytes(), 80),
            five_by_address(CONNECT, place.address.octets(), 80),
            four(Some(&place.name), [0, 0, 0, 1], 80),
            four(None, place.address.octets(), 80),
            five(CONNECT, b"files.test", 22),
        ],
    );
    let reached: Vec<bool> = heard.iter().map(reached).collect();
    // SOCKS 4 is always refused.
    assert_eq!(reached, [true, false, false, false, false, false, false], "{heard:?}");
    // Denied by the rules: 2 in SOCKS 5, 91 in SOCKS 4.
    for (index, reply) in [(2, "\u{5}\u{0}\u{5}\u{2}"), (3, "\u{5}\u{0}\u{5}\u{2}"), (4, "\u{0}[")]
    {
        assert!(heard[index].0.starts_with(reply), "{:?}", heard[index]);
    }
    assert_eq!(watch.to(&place), []);
}

fn h26_socks_supports_only_connect() {
    let said = [BIND, ASSOCIATE, 0, 9].map(|command| five(command, b"files.test", 80));
    for heard in converse(&FILES, &said) {
        assert!(!reached(&heard), "{heard:?}");
        // Command not supported.
        assert!(heard.0.starts_with("\u{5}\u{0}\u{5}\u{7}"), "{heard:?}");
    }
    // Only an authentication method that the proxy does not support.
    let mut unknown = five(CONNECT, b"files.test", 80);
    unknown.bytes[2] = 9;
    let heard = converse(&FILES, &[unknown]);
    assert!(!reached(&heard[0]), "{heard:?}");
}

fn h26_malformed_socks_names_are_refused() {
    let (place, watch) = (Place::new(), Watch::start());
    let evil = place.name.as_str();
    let long = [b'a'; 255];
    let names: [Vec<u8>; 7] = [
        format!("{evil}\0.files.test").into_bytes(),
        format!("{evil}\0files.test").into_bytes(),
        b"files.test\0".to_vec(),
        format!("{evil}\n.files.test").into_bytes(),
        long.to_vec(),
        Vec::new(),
        format!("{evil}/.files.test").into_bytes(),
    ];
    for heard in converse(&FILES, &names.map(|name| five(CONNECT, &name, 80))) {
        assert!(!reached(&heard), "{heard:?}");
    }
    assert_eq!(watch.to(&place), []);
}

fn curl_works_with_socks5_and_socks5h() {
    // socks5h sends the name to the proxy; socks5 sends its synthetic address.
    let script = "for kind in socks5h socks5; do \
                  curl -sS -m 10 -x \"$kind://${HTTP_PROXY#http://}\" https://files.test/; done";
    let run = inside(&FILES, &["bash", "-c", script]);
    assert_eq!(run.text(), format!("{} files.test\n", internet().token()).repeat(2));
}
