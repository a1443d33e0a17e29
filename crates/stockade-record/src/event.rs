//! One event of a session.

use serde::{Deserialize, Serialize};

use crate::{
    Denied, Digest, Egress, ExecutionEnded, ExecutionStarted, FileOperation, LimitHit, PortEvent,
    SecretReplaced, SessionEnded, SessionId, SessionStarted, Time, ToolCall, VerdictGiven,
};

/// One event, with its position in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the stream, from zero without gaps.
    pub sequence: u64,
    /// When it was written.
    pub time: Time,
    /// The session of the stream.
    pub session: SessionId,
    /// What happened.
    pub body: Body,
    /// The hash of the previous event; [`Digest::ZERO`] for the first.
    pub previous: Digest,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum Body {
    /// The first event: what will run, and under which policy.
    SessionStarted(SessionStarted),
    /// The policy's decision about the program itself, before it runs.
    Verdict(VerdictGiven),
    /// A program is about to start behind a wall.
    ExecutionStarted(ExecutionStarted),
    /// A connection or request ended, or was refused.
    Egress(Egress),
    /// A tool call ended, or was refused.
    ToolCall(ToolCall),
    /// The host read or changed files inside.
    FileOperation(FileOperation),
    /// A port was forwarded, or a connection to it ended or was refused.
    Port(PortEvent),
    /// The value of a secret was replaced.
    SecretReplaced(SecretReplaced),
    /// A limit refused something, or ended the program.
    LimitHit(LimitHit),
    /// The wall refused something.
    Denial(Denied),
    /// How the program ended.
    ExecutionEnded(ExecutionEnded),
    /// The last event: the stream is complete.
    SessionEnded(SessionEnded),
}

impl Body {
    /// The kind as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Body::SessionStarted(_) => "session_started",
            Body::Verdict(_) => "verdict",
            Body::ExecutionStarted(_) => "execution_started",
            Body::Egress(_) => "egress",
            Body::ToolCall(_) => "tool_call",
            Body::FileOperation(_) => "file_operation",
            Body::Port(_) => "port",
            Body::SecretReplaced(_) => "secret_replaced",
            Body::LimitHit(_) => "limit_hit",
            Body::Denial(_) => "denial",
            Body::ExecutionEnded(_) => "execution_ended",
            Body::SessionEnded(_) => "session_ended",
        }
    }

    /// The execution it belongs to; `None` if it belongs to the session.
    pub fn execution(&self) -> Option<u64> {
        match self {
            Body::SessionStarted(_)
            | Body::FileOperation(_)
            | Body::Port(_)
            | Body::SecretReplaced(_)
            | Body::SessionEnded(_) => None,
            Body::Verdict(verdict) => verdict.execution,
            Body::ExecutionStarted(started) => Some(started.execution),
            Body::Egress(egress) => egress.execution,
            Body::ToolCall(call) => call.execution,
            Body::LimitHit(hit) => hit.execution,
            Body::Denial(denied) => denied.execution,
            Body::ExecutionEnded(ended) => Some(ended.execution),
        }
    }

    /// Whether it is the last event of a stream.
    pub fn is_last(&self) -> bool {
        matches!(self, Body::SessionEnded(_))
    }

    /// Whether it records an end: a stream reserves space for these events.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Body::ExecutionEnded(_) | Body::SessionEnded(_))
    }
}
