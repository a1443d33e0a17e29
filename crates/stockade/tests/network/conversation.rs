//! Raw bytes that a program inside sends to the proxy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::inside;

/// The bytes of one connection, and the number of responses to wait for.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) bytes: Vec<u8>,
    pub(crate) answers: usize,
}

impl Said {
    /// Bytes with one response.
    pub(crate) fn new(bytes: impl AsRef<[u8]>) -> Said {
        Said { bytes: bytes.as_ref().to_vec(), answers: 1 }
    }

    /// A CONNECT request with this exact authority.
    pub(crate) fn connect(authority: impl AsRef<[u8]>) -> Said {
        let authority = authority.as_ref();
        let parts = [b"CONNECT ", authority, b" HTTP/1.1\r\nHost: ", authority, b"\r\n\r\n"];
        Said::new(parts.concat())
    }
}

/// The received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard(pub(crate) String);

impl Heard {
    /// The status of the first response, or 0 without one.
    pub(crate) fn status(&self) -> u16 {
        let number = self.0.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Whether the proxy refused the request: with a denial, as malformed, or by closing the
    /// connection.
    pub(crate) fn is_refused(&self) -> bool {
        let closed = self.0.is_empty() || self.0.starts_with('<');
        matches!(self.status(), 400 | 403 | 405 | 408 | 414 | 426 | 431 | 501 | 505) || closed
    }
}

/// Sends each of these to the proxy of one sandbox, each on its own connection.
#[track_caller]
pub(crate) fn converse(flags: &[&str], said: &[Said]) -> Vec<Heard> {
    let pairs: Vec<Value> =
        said.iter().map(|said| json!([STANDARD.encode(&said.bytes), said.answers])).collect();
    let pairs = Value::from(pairs).to_string();
    let script = include_str!("programs/talk.py");
    let run = inside(flags, &["python3", "-c", script, &pairs]);
    let heard: Vec<String> = serde_json::from_str(run.text()).expect("the script prints JSON");
    let decode = |text: &String| {
        let bytes = STANDARD.decode(text).expect("the script prints base64");
        Heard(String::from_utf8_lossy(&bytes).into_owned())
    };
    heard.iter().map(decode).collect()
}
