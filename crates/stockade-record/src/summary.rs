//! Counts the requests and the tool calls of sessions.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use stockade_policy::Effect;

use crate::{Body, Egress, Event, SessionId, Time, ToolCall, Via};

/// How many of the latest requests to keep.
const LATEST: usize = 10;

/// Replaces a method or a status that is unknown because TLS was not decrypted.
const UNKNOWN: &str = "unknown";

/// Counts of the requests and tool calls of sandboxes, allowed or not.
///
/// A DNS query counts only if it was refused: an allowed one is followed by a connection, which
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// Bytes from inside to hosts.
    pub sent_bytes: u64,
    /// Bytes from hosts to the inside.
    pub received_bytes: u64,
    /// Requests by host.
    pub by_host: BTreeMap<String, u64>,
    /// Requests by method.
    pub by_method: BTreeMap<String, u64>,
    /// Requests by status.
    pub by_status: BTreeMap<String, u64>,
    /// Requests by verdict.
    pub by_verdict: BTreeMap<&'static str, u64>,
    /// The ten latest, newest first.
    pub latest: VecDeque<Latest>,
    /// All tool calls.
    pub tool_calls: u64,
    /// Tool calls by tool, and for each tool by outcome.
    pub by_tool: BTreeMap<String, BTreeMap<String, u64>>,
}

/// One of the latest requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Latest {
    /// When it was recorded.
    pub time: Time,
    /// Its session.
    pub session: SessionId,
    /// The method, or `unknown`.
    pub method: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
    /// The path, if it is known.
    pub path: Option<String>,
    /// The status, or `unknown`.
    pub status: String,
    /// What was decided.
    pub verdict: Effect,
}

impl Summary {
    /// Counts one event.
    pub fn add(&mut self, event: &Event) {
        match &event.body {
            Body::Egress(egress) => self.add_egress(event, egress),
            Body::ToolCall(call) => self.add_tool_call(call),
            Body::SessionStarted(_)
            | Body::Verdict(_)
            | Body::ExecutionStarted(_)
            | Body::FileOperation(_)
            | Body::Port(_)
            | Body::SecretReplaced(_)
            | Body::LimitHit(_)
            | Body::Denial(_)
            | Body::ExecutionEnded(_)
            | Body::SessionEnded(_) => {}
        }
    }

    fn add_tool_call(&mut self, call: &ToolCall) {
        self.tool_calls += 1;
        let outcomes = self.by_tool.entry(call.tool.clone()).or_default();
        *outcomes.entry(call.outcome.clone()).or_default() += 1;
    }

    fn add_egress(&mut self, event: &Event, egress: &Egress) {
        if egress.via == Via::Dns && egress.verdict.allows() {
            return;
        }
        self.requests += 1;
        self.sent_bytes = self.sent_bytes.saturating_add(egress.sent_bytes);
        self.received_bytes = self.received_bytes.saturating_add(egress.received_bytes);
        let latest = latest(event, egress);
        *self.by_host.entry(latest.host.clone()).or_default() += 1;
        *self.by_method.entry(latest.method.clone()).or_default() += 1;
        *self.by_status.entry(latest.status.clone()).or_default() += 1;
        *self.by_verdict.entry(egress.verdict.as_str()).or_default() += 1;
        let at = self.latest.partition_point(|other| other.time > latest.time);
        self.latest.insert(at, latest);
        self.latest.truncate(LATEST);
    }
}

fn latest(event: &Event, egress: &Egress) -> Latest {
    Latest {
        time: event.time,
        session: event.session.clone(),
        method: egress.method.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
        host: egress.host.clone(),
        port: egress.port,
        path: egress.path.clone(),
        status: egress.status.map_or_else(|| UNKNOWN.to_owned(), |status| status.to_string()),
        verdict: egress.verdict,
    }
}
