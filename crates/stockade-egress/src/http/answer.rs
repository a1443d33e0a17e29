//! Responses that the gate itself sends.

use std::time::Duration;

use serde::Serialize;
use stockade_policy::{Control, Denial};

use super::head::HeadError;
use crate::side::Side;
use crate::words::ascii_line;

/// The most characters of a reason in a status line.
const MAX_REASON: usize = 200;
/// The most bytes that a refused program may still send.
const MAX_LINGER_BYTES: usize = 1 << 20;

/// A refusal with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) denial: Box<Denial>,
}

impl Refusal {
    /// A denial by the policy.
    pub(crate) fn forbidden(denial: Denial) -> Refusal {
        Refusal { status: 403, denial: Box::new(denial) }
    }

    /// For a head that parsers could interpret differently.
    pub(crate) fn unreadable(target: String, error: &HeadError) -> Refusal {
        let why = match error {
            HeadError::Target => {
                "a proxy takes requests with a whole http:// address, or CONNECT".to_owned()
            }
            error => error.to_string(),
        };
        let how_to_allow = error.remedy().to_owned();
        let denial = Denial {
            control: Control::NetworkHosts.as_str().into(),
            rule: "built in: a request has one meaning only".to_owned(),
            target,
            why,
            how_to_allow,
        };
        Refusal { status: error.status(), denial: Box::new(denial) }
    }
}

/// Why an allowed request failed.
#[derive(Serialize)]
struct Failure<'a> {
    failure: &'a str,
}

/// What a response of the gate answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// A request.
    Request,
    /// A HEAD, whose response has no body.
    Head,
    /// A CONNECT: clients show its status line only.
    Connect,
}

impl Answers {
    /// By the first bytes of a request.
    pub(crate) fn request(begins: &[u8]) -> Answers {
        if begins.starts_with(b"HEAD ") { Answers::Head } else { Answers::Request }
    }
}

/// Sends a program the reason of a refusal.
pub(crate) async fn answer_denied(inside: &mut Side, refusal: &Refusal, answers: Answers) {
    let body = serde_json::to_vec(&refusal.denial).unwrap_or_default();
    let reason = match answers {
        Answers::Connect => {
            ascii_line(&format!("Denied by Stockade: {}", refusal.denial.why), MAX_REASON)
        }
        Answers::Request | Answers::Head => reason(refusal.status).to_owned(),
    };
    answer(inside, (refusal.status, &reason), &body, answers).await;
}

/// The body of the answer to an allowed request that failed.
pub(crate) fn failure_body(why: &str) -> Vec<u8> {
    serde_json::to_vec(&Failure { failure: why }).unwrap_or_default()
}

/// Sends a program the reason why an allowed request failed.
pub(crate) async fn answer_failed(inside: &mut Side, status: u16, why: &str, answers: Answers) {
    let body = failure_body(why);
    answer(inside, (status, &ascii_line(why, MAX_REASON)), &body, answers).await;
}

/// Keeps reading for a moment: closing a socket with unread bytes resets it, and the program would
/// lose the response.
pub(crate) async fn linger(inside: &mut Side, time: Duration) {
    let _ = inside.outgoing.finish().await;
    let drain = async {
        let mut left = MAX_LINGER_BYTES;
        loop {
            let held = inside.incoming.held().len();
            inside.incoming.used(held);
            match inside.incoming.fill().await {
                Ok(read) if read > 0 && read < left => left -= read,
                _ => return,
            }
        }
    };
    let _ = tokio::time::timeout(time, drain).await;
}

/// The connection ends in any case, whether the program reads the response or not.
async fn answer(inside: &mut Side, (status, reason): (u16, &str), body: &[u8], answers: Answers) {
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if answers == Answers::Head { &[] } else { body };
    let _ = inside.outgoing.send(&[head.as_bytes(), body].concat()).await;
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Refused",
    }
}
