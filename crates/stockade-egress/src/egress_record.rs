//! The record of one connection, request or refused question, written when it ends.

use std::net::IpAddr;
use std::sync::Arc;

use stockade_policy::{Denial, Effect, Host, Verdict};
use stockade_provider::caller;
use stockade_record::{Egress, Inspection, SecretAct, SecretUse, Via};
use tokio::time::Instant;

use crate::http::Answers;
use crate::meter::Meter;
use crate::shared::Shared;
use crate::words::{MAX_HOST, MAX_PATH, harmless};

/// Collects what happened and records it exactly once, when it is dropped: also when the sandbox
/// ends in the middle.
pub(crate) struct EgressRecord {
    shared: Arc<Shared>,
    meter: Option<Arc<Meter>>,
    before: (u64, u64),
    started: Instant,
    event: Egress,
    answers: Answers,
    is_told: bool,
}

impl EgressRecord {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        connection: u64,
        via: Via,
        meter: Option<&Arc<Meter>>,
    ) -> EgressRecord {
        let event = Egress {
            execution: caller().map(|caller| caller.0),
            connection,
            via,
            host: String::new(),
            port: None,
            address: None,
            method: None,
            path: None,
            status: None,
            inspection: Inspection::None,
            sent_bytes: 0,
            received_bytes: 0,
            duration_ms: 0,
            verdict: Effect::Deny,
            rule: "built in: denied by default".to_owned(),
            denial: None,
            failure: None,
            secrets: Vec::new(),
        };
        EgressRecord {
            shared: Arc::clone(shared),
            meter: meter.cloned(),
            before: meter.map_or((0, 0), |meter| meter.counts()),
            started: Instant::now(),
            event,
            answers: Answers::Request,
            is_told: true,
        }
    }

    /// Records nothing: another record covers what happened.
    pub(crate) fn forget(mut self) {
        self.is_told = false;
    }

    /// The destination.
    pub(crate) fn target(&mut self, host: &Host, port: Option<u16>) {
        self.event.host = harmless(&host.to_string(), MAX_HOST);
        self.event.port = port;
    }

    /// The requested target, if it is not a host.
    pub(crate) fn no_host(&mut self, text: &str) {
        self.event.host = harmless(text, MAX_HOST);
    }

    /// The destination, for a denial.
    pub(crate) fn destination(&self) -> String {
        let port = self.event.port.map_or_else(String::new, |port| format!(":{port}"));
        format!("{}{port}", self.event.host)
    }

    pub(crate) fn request(&mut self, method: &str, path: &str) {
        self.event.inspection = Inspection::Requests;
        self.answers(if method == "HEAD" { Answers::Head } else { Answers::Request });
        self.event.method = Some(harmless(method, 32));
        let path = path.split(['?', '#']).next().unwrap_or_default();
        self.event.path = Some(harmless(path, MAX_PATH));
    }

    /// What a refusal answers.
    pub(crate) fn answers(&mut self, answers: Answers) {
        self.answers = answers;
    }

    pub(crate) fn answered(&self) -> Answers {
        self.answers
    }

    pub(crate) fn inspected(&mut self, inspection: Inspection) {
        self.event.inspection = inspection;
    }

    /// A secret that was sent, seen in a wrong place, or sent back.
    pub(crate) fn secret(&mut self, name: &str, act: SecretAct) {
        let held = SecretUse { name: name.to_owned(), act };
        if !self.event.secrets.contains(&held) {
            self.event.secrets.push(held);
        }
    }

    pub(crate) fn dialled(&mut self, address: IpAddr) {
        self.event.address = Some(address);
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.event.status = Some(status);
    }

    /// The rule that allowed it.
    pub(crate) fn allowed(&mut self, verdict: &Verdict) {
        self.event.verdict = verdict.effect;
        self.event.rule = verdict.basis.to_string();
    }

    /// The denial that refused it.
    pub(crate) fn denied(&mut self, denial: &Denial) {
        self.event.verdict = Effect::Deny;
        self.event.rule = denial.rule.clone();
        self.event.denial = Some(denial.clone());
    }

    /// Why it failed although it was allowed.
    pub(crate) fn failed(&mut self, why: impl Into<String>) {
        self.event.failure = Some(why.into());
    }
}

impl Drop for EgressRecord {
    fn drop(&mut self) {
        if !self.is_told {
            return;
        }
        let now = self.meter.as_ref().map_or((0, 0), |meter| meter.counts());
        let mut event = self.event.clone();
        event.sent_bytes = now.0.saturating_sub(self.before.0);
        event.received_bytes = now.1.saturating_sub(self.before.1);
        event.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.shared.record(event);
    }
}
