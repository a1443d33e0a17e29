//! Parsers of untrusted input, for fuzz targets; not part of the public API.

use crate::http::{Chunked, head_end, parse_request, parse_response};
use crate::names::{Reply, answer, read_question};
use crate::proxy::{read_greeting, read_request};
use crate::tls::HelloReader;

/// Parses a ClientHello, whole and in two pieces; both must give the same result.
pub fn client_hello(bytes: &[u8]) {
    let whole = HelloReader::default().read(bytes);
    let mut reader = HelloReader::default();
    let half = reader.read(&bytes[..bytes.len() / 2]);
    if let Ok(None) = half {
        assert_eq!(whole, reader.read(bytes), "cutting changes nothing");
    }
}

/// Parses the heads of a request and of a response, and a chunked body.
pub fn http(bytes: &[u8]) {
    if let Ok(Some(end)) = head_end(bytes, 0) {
        let _ = parse_request(&bytes[..end]);
        for (head_only, websocket) in [(false, false), (true, false), (false, true)] {
            let _ = parse_response(&bytes[..end], crate::http::Asked { head_only, websocket });
        }
    }
    let mut whole = Chunked::default();
    if let Ok(passing) = whole.advance(bytes) {
        assert!(passing.pass + passing.drop <= bytes.len(), "no more is used than there is");
    }
}

/// Parses a DNS question and builds every kind of answer.
pub fn dns(bytes: &[u8]) {
    match read_question(bytes) {
        Ok(question) => {
            let words = "x".repeat(1000);
            for reply in [
                Reply::Address([127, 64, 0, 1].into()),
                Reply::Localhost,
                Reply::Nothing,
                Reply::Refused(18, words),
            ] {
                let written = answer(&question, &reply);
                assert!((12..=512).contains(&written.len()), "an answer fits a datagram");
            }
        }
        Err(written) => assert!(written.len() >= 12, "what is no question is answered too"),
    }
}

/// Parses a SOCKS greeting and a request.
pub fn socks(bytes: &[u8]) {
    if let Ok(Some(greeting)) = read_greeting(bytes) {
        assert!(greeting.bytes <= bytes.len(), "no more is used than there is");
    }
    if let Ok(Some(request)) = read_request(bytes) {
        assert!(request.bytes <= bytes.len(), "no more is used than there is");
    }
}
