//! Parsers of untrusted input, for fuzz targets; not part of the public API.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use stockade_policy::{Host, Policy, UrlPath};
use tokio::io::{AsyncRead, ReadBuf};

use crate::dial::Target;
use crate::http::{
    Chunked, Length, RequestHead, RequestTarget, head_end, parse_request, parse_response, rewritten,
};
use crate::http2::{Tasks, request_of};
use crate::names::{Reply, answer, read_question};
use crate::proxy::{read_greeting, read_request};
use crate::secrets::{Secrets, place_all};
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

/// A value that no input contains by chance.
const VALUE: &str = "sk-5d0f8a3c7e2b9164";

/// A secret for one host, with a placeholder.
fn secrets() -> &'static (Secrets, String) {
    static SECRETS: OnceLock<(Secrets, String)> = OnceLock::new();
    SECRETS.get_or_init(|| {
        let text = format!(
            "secrets: [{{name: KEY, from: 'command:echo {VALUE}', hosts: [a.example.org]}}]"
        );
        let policy = Policy::parse_str("fuzz", &text, Path::new("/")).expect("it is a policy");
        let secrets = Secrets::load(&policy).expect("echo is there");
        let placeholder = secrets.placeholders().remove(0).1;
        (secrets, placeholder)
    })
}

/// Takes a request the way of an opened connection: parsed, its path normalized, placeholders
/// replaced, written anew. `@@` in the input represents a placeholder. What is written has one
/// reading, the same as what was parsed, and a value only where it belongs.
pub fn opened(bytes: &[u8]) {
    let (_, placeholder) = secrets();
    let bytes = replaced(bytes, placeholder.as_bytes());
    let Ok(Some(end)) = head_end(&bytes, 0) else { return };
    let Ok(head) = parse_request(&bytes[..end]) else { return };
    let RequestTarget::Origin { host, port, path } = head.aim.clone() else { return };
    let Ok(normal) = UrlPath::normalized(&path) else { return };
    assert_eq!(
        UrlPath::parse(&normal.to_string()).as_ref(),
        Ok(&normal),
        "the form that is sent is the form that rules judge"
    );
    let query = path.find('?').map_or("", |at| &path[at..]);
    let target = Target { host, port: port.unwrap_or(443) };
    let declared = head.fields.length(head.minor_version).expect("it was read before");
    assert_eq!(declared.unwrap_or(Length::Nothing), head.length);
    check_sent(&head, &target, &format!("{normal}{query}"));
}

/// Takes bytes after the preface of HTTP/2 the way of an opened connection; `@@` in a field or a
/// path stands for a placeholder. A request that is accepted has one reading in HTTP/1.1 too.
/// Returns how many are accepted.
pub fn opened_two(bytes: &[u8]) -> usize {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let (_, placeholder) = secrets();
    let target = Target { host: Host::parse("a.example.org").expect("it is a host"), port: 443 };
    let accepted = Cell::new(0);
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (parts, body) = request.into_parts();
        if let Ok((mut head, path)) = request_of(&parts, &target, !body.is_end_stream()) {
            for field in &mut head.fields.0 {
                field.value = replaced(&field.value, placeholder.as_bytes());
            }
            let path = replaced(path.as_bytes(), placeholder.as_bytes());
            check_sent(&head, &target, &String::from_utf8(path).expect("it is ASCII"));
            accepted.set(accepted.get() + 1);
        }
        async { Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new())) }
    });
    let input = [PREFACE, bytes].concat();
    // Each frame has at least nine bytes.
    let input = Input { bytes: &input, pauses: bytes.len() / 9 + 2 };
    let stream = tokio::io::join(input, tokio::io::sink());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("one thread").block_on(async {
        let tasks = Tasks::default();
        let served = http2::Builder::new(tasks.handle());
        // Its failure is that of the input.
        let _ = served.serve_connection(TokioIo::new(stream), service).await;
    });
    accepted.get()
}

/// Bytes whose end comes only after pauses: a connection that has ended accepts no request.
struct Input<'i> {
    bytes: &'i [u8],
    pauses: usize,
}

impl AsyncRead for Input<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() && self.pauses > 0 {
            self.pauses -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (now, rest) = self.bytes.split_at(buffer.remaining().min(self.bytes.len()));
        buffer.put_slice(now);
        self.bytes = rest;
        Poll::Ready(Ok(()))
    }
}

/// What is sent for a request has one reading, and a value only where it belongs.
fn check_sent(head: &RequestHead, target: &Target, path: &str) {
    let (secrets, placeholder) = secrets();
    let is_bound = Host::parse("a.example.org").as_ref() == Ok(&target.host);
    for may_send in [true, false] {
        let Ok(placed) = place_all(secrets, target, &head.fields, path, may_send) else {
            continue;
        };
        let head = RequestHead { fields: placed.fields, ..head.clone() };
        let written = rewritten(&head, target, &placed.path);
        assert_eq!(head_end(&written, 0), Ok(Some(written.len())), "one head and nothing else");
        let again = parse_request(&written).expect("what is written is valid");
        let length = head.fields.length(head.minor_version).expect("it was read before");
        let length = length.unwrap_or(Length::Nothing);
        assert_eq!((&again.method, again.length), (&head.method, length));
        let RequestTarget::Origin { path, .. } = again.aim else {
            panic!("it is sent to the host")
        };
        assert_eq!(path, placed.path, "the server reads the path that was judged");
        let has = |part: &str| written.windows(part.len()).any(|at| at == part.as_bytes());
        assert!(!has(placeholder), "no placeholder is sent");
        assert!(!has(VALUE) || (may_send && is_bound), "the value is sent to its host alone");
    }
}

/// The bytes with each `@@` replaced.
fn replaced(bytes: &[u8], by: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, more)) = rest.split_first() {
        if rest.starts_with(b"@@") {
            all.extend_from_slice(by);
            rest = &rest[2..];
        } else {
            all.push(*first);
            rest = more;
        }
    }
    all
}

/// Redacts a stream that is cut anywhere; `@@` in the input represents the value. The value does
/// not come out, and the length stays.
pub fn redacted(bytes: &[u8]) {
    let (secrets, _) = secrets();
    let Some((cut, stream)) = bytes.split_first() else { return };
    let stream = replaced(stream, VALUE.as_bytes());
    let host = Host::parse("a.example.org").expect("it is a host");
    let mut redactor = secrets.redactor(&host);
    let mut out = Vec::new();
    for piece in stream.chunks(usize::from(*cut).max(1)) {
        out.extend(redactor.pass(piece).expect("redacting never fails"));
    }
    out.extend(redactor.finish());
    assert_eq!(out.len(), stream.len(), "redacting keeps the length");
    assert!(!out.windows(VALUE.len()).any(|at| at == VALUE.as_bytes()), "the value stays outside");
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
