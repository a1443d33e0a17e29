//! Forwards one request to a server, and its response back.

use std::sync::atomic::{AtomicBool, Ordering};

use stockade_record::SecretAct;

use super::body::{BodyError, pass_body};
use super::fields::Length;
use super::head::HeadError;
use super::read::{ReadError, read_head};
use super::request::RequestHead;
use super::response::{Asked, ResponseHead, parse_response};
use crate::dial::Target;
use crate::egress_record::EgressRecord;
use crate::rules::Spoken;
use crate::secrets::{Screen, Secrets};
use crate::settings::Times;
use crate::side::{Incoming, Outgoing, Side};

/// The most interim responses, such as `100 Continue`.
const MAX_INTERIM: usize = 16;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both connections can be reused.
    Kept,
    /// The response is complete and the connection is over.
    Over,
    /// A WebSocket follows.
    WebSocket,
}

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    /// No part of a response was forwarded yet.
    #[error("the server gave no answer that can be passed on: {0}")]
    NoAnswer(String),
    /// The connection was closed before any part of a response came.
    #[error("the server closed the connection without an answer: {0}")]
    Gone(String),
    /// The program's own body is malformed, before any response.
    #[error("the body of the request: {0}")]
    Request(BodyError),
    /// A placeholder is in the body of the request; the index of its secret.
    #[error("the body of the request has the placeholder of a secret")]
    Misplaced {
        /// The index of the secret.
        secret: usize,
        /// Whether a part of the response was forwarded.
        is_midway: bool,
    },
    /// The response broke off.
    #[error("the answer broke off: {0}")]
    Midway(BodyError),
}

/// A request as it is sent.
pub(super) struct Request<'a> {
    pub(super) head: &'a RequestHead,
    pub(super) target: &'a Target,
    pub(super) path: &'a str,
    pub(super) spoken: Spoken,
    pub(super) secrets: &'a Secrets,
}

/// Forwards a request and its response.
pub(super) async fn forward(
    inside: &mut Side,
    outside: &mut Side,
    request: &Request<'_>,
    times: &Times,
    record: &mut EgressRecord,
) -> Result<Ended, ForwardError> {
    let head = request.head;
    let written = write_request(request);
    let sent = outside.outgoing.send(&written).await;
    sent.map_err(|error| ForwardError::Gone(error.to_string()))?;
    let upload = async {
        let mut detector = request.secrets.detector();
        let ends = (&mut inside.incoming, &mut outside.outgoing);
        pass_body(ends, head.length, &mut detector).await
    };
    let has_begun = AtomicBool::new(false);
    let ends = (&mut outside.incoming, &mut inside.outgoing);
    let answer = pass_answer(ends, request, times, record, &has_begun);
    tokio::pin!(upload, answer);
    tokio::select! {
        biased;
        uploaded = &mut upload => match uploaded {
            Ok(()) => answer.await,
            // The server may have responded before it stopped reading.
            Err(BodyError::To(_)) => answer.await.map(over),
            Err(BodyError::Misplaced(secret)) => {
                let is_midway = has_begun.load(Ordering::Relaxed);
                Err(ForwardError::Misplaced { secret, is_midway })
            }
            Err(error) if has_begun.load(Ordering::Relaxed) => Err(ForwardError::Midway(error)),
            Err(error) => Err(ForwardError::Request(error)),
        },
        // A response to half a request: the other half must not be read as the next request.
        ended = &mut answer => ended.map(over),
    }
}

fn over(ended: Ended) -> Ended {
    match ended {
        Ended::Kept | Ended::Over => Ended::Over,
        Ended::WebSocket => Ended::WebSocket,
    }
}

async fn pass_answer(
    (from, to): (&mut Incoming, &mut Outgoing),
    request: &Request<'_>,
    times: &Times,
    record: &mut EgressRecord,
    has_begun: &AtomicBool,
) -> Result<Ended, ForwardError> {
    let head = request.head;
    let mut redactor = request.secrets.redactor(&request.target.host);
    let asked = Asked { head_only: head.method == "HEAD", websocket: head.wants_websocket };
    for _ in 0..MAX_INTERIM {
        let mut response = match read_answer(from, asked, times).await {
            Err(ForwardError::Gone(why)) if has_begun.load(Ordering::Relaxed) => {
                return Err(ForwardError::NoAnswer(why));
            }
            read => read?,
        };
        if response.length == Length::Chunks && head.minor_version == 0 {
            return Err(ForwardError::NoAnswer("chunks for a client of HTTP/1.0".to_owned()));
        }
        redact_head(&mut response, &mut redactor)?;
        let is_interim = response.status < 200 && !response.is_websocket;
        let is_last = head.is_last || response.is_last || head.wants_websocket;
        record.status(response.status);
        let written = write_response(&response, is_last && !is_interim);
        has_begun.store(true, Ordering::Relaxed);
        let midway = |error| ForwardError::Midway(BodyError::To(error));
        to.send(&written).await.map_err(midway)?;
        note_echoes(request.secrets, &redactor, record);
        if response.is_websocket {
            return Ok(Ended::WebSocket);
        }
        if !is_interim {
            let passed = pass_body((from, to), response.length, &mut redactor).await;
            note_echoes(request.secrets, &redactor, record);
            passed.map_err(ForwardError::Midway)?;
            return Ok(if is_last { Ended::Over } else { Ended::Kept });
        }
    }
    Err(ForwardError::NoAnswer("it has too many answers before the real one".to_owned()))
}

async fn read_answer(
    from: &mut Incoming,
    asked: Asked,
    times: &Times,
) -> Result<ResponseHead, ForwardError> {
    let no_answer = |why: String| ForwardError::NoAnswer(why);
    match read_head(from, times.idle, times.idle).await {
        Ok(Some(bytes)) => {
            parse_response(&bytes, asked).map_err(|error: HeadError| no_answer(error.to_string()))
        }
        Ok(None) => Err(ForwardError::Gone("it ended".to_owned())),
        Err(ReadError::Broken(error)) if from.held().is_empty() => {
            Err(ForwardError::Gone(error.to_string()))
        }
        Err(error) => Err(no_answer(error.to_string())),
    }
}

/// The port that a Host field need not name.
pub(super) fn usual_port(spoken: Spoken) -> u16 {
    if spoken == Spoken::Opened { 443 } else { 80 }
}

/// Redacts the values of secrets in a head, and refuses a body in which they could not be found.
fn redact_head(response: &mut ResponseHead, redactor: &mut Screen) -> Result<(), ForwardError> {
    if redactor.is_off() {
        return Ok(());
    }
    let has_body = !matches!(response.length, Length::Nothing | Length::Bytes(0));
    let codings = response.fields.words("content-encoding");
    if has_body && codings.iter().any(|coding| coding != "identity") {
        let why = "it is compressed although the gate asked for it plain, and it may contain a \
                   secret";
        return Err(ForwardError::NoAnswer(why.to_owned()));
    }
    if response.status == 206 {
        let why = "it is a part although the gate asked for the whole, and may contain a part of a \
                   secret";
        return Err(ForwardError::NoAnswer(why.to_owned()));
    }
    let unsearched =
        || ForwardError::NoAnswer("its head cannot be searched for secrets".to_owned());
    redactor.text(&mut response.reason).map_err(|_| unsearched())?;
    redactor.fields(&mut response.fields).map_err(|_| unsearched())
}

/// Records which secrets were redacted.
pub(crate) fn note_echoes(secrets: &Secrets, redactor: &Screen, record: &mut EgressRecord) {
    for index in redactor.echoed() {
        record.secret(secrets.name(index), SecretAct::Echoed);
    }
}

fn write_request(request: &Request<'_>) -> Vec<u8> {
    let Request { head, target, path, spoken, .. } = request;
    written_anew(head, target, path, *spoken)
}

/// A head for the server of a target, as an opened connection sends it.
pub(crate) fn rewritten(head: &RequestHead, target: &Target, path: &str) -> Vec<u8> {
    written_anew(head, target, path, Spoken::Opened)
}

fn written_anew(head: &RequestHead, target: &Target, path: &str, spoken: Spoken) -> Vec<u8> {
    let Target { host, port } = target;
    let authority =
        if *port == usual_port(spoken) { host.to_string() } else { format!("{host}:{port}") };
    let line =
        format!("{} {path} HTTP/1.{}\r\nHost: {authority}\r\n", head.method, head.minor_version);
    let mut written = line.into_bytes();
    head.fields.write(&mut written);
    if head.wants_websocket {
        written.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
    } else if head.is_last {
        written.extend_from_slice(b"Connection: close\r\n");
    }
    written.extend_from_slice(b"\r\n");
    written
}

fn write_response(response: &ResponseHead, closes: bool) -> Vec<u8> {
    let line = format!("HTTP/1.1 {} {}\r\n", response.status, response.reason);
    let mut written = line.into_bytes();
    response.fields.write(&mut written);
    if response.is_websocket {
        written.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
    } else if closes {
        written.extend_from_slice(b"Connection: close\r\n");
    }
    written.extend_from_slice(b"\r\n");
    written
}
