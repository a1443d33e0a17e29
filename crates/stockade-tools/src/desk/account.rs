//! The account of one call, told when it ends.

use std::sync::Arc;

use serde_json::Value;
use stockade_policy::{Denial, Effect, ToolArguments, Verdict};
use stockade_record::ToolCall;
use tokio::time::Instant;

use crate::desk::shared::{Served, Shared};
use crate::fault::Code;
use crate::words::harmless;

/// Collects what happened and tells it exactly once: when it is finished, or when it is dropped
/// because the call was cancelled or broke.
#[derive(Debug)]
pub(super) struct Account {
    shared: Arc<Shared>,
    started: Instant,
    event: ToolCall,
    is_told: bool,
    /// After the event is told nothing is served any more.
    _served: Served,
}

impl Account {
    pub(super) fn new(shared: &Arc<Shared>, tool: &str, started: Instant) -> Account {
        let event = ToolCall {
            execution: None,
            call: shared.next_number(),
            tool: harmless(tool, ToolCall::MAX_TOOL_BYTES),
            verdict: Effect::Deny,
            rule: "built in: denied by default".to_owned(),
            denial: None,
            outcome: String::new(),
            duration_ms: 0,
            argument_bytes: 0,
            result_bytes: 0,
            arguments: None,
        };
        let served = Served::new(shared);
        Account { shared: Arc::clone(shared), started, event, is_told: false, _served: served }
    }

    /// The fixed rule that refused what came.
    pub(super) fn refused(&mut self, rule: &str) {
        self.event.rule = format!("built in: {rule}");
    }

    pub(super) fn arguments(&mut self, arguments: &Value, bytes: usize) {
        self.event.argument_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.shared.policy.tool_arguments.value == ToolArguments::Record {
            // What is longer is cut before it is kept; so much is enough for that.
            let text = arguments.to_string();
            self.event.arguments = Some(harmless(&text, 2 * ToolCall::MAX_ARGUMENT_BYTES));
        }
    }

    /// What decided that it goes ahead.
    pub(super) fn allowed(&mut self, verdict: &Verdict) {
        self.event.verdict = verdict.effect;
        self.event.rule = verdict.basis.to_string();
    }

    /// What refused it.
    pub(super) fn denied(&mut self, denial: &Denial) {
        self.event.verdict = Effect::Deny;
        self.event.rule = denial.rule.clone();
        self.event.denial = Some(denial.clone());
    }

    /// Tells what became of it: a result of so many bytes, or an error. Only what could be told
    /// may be answered.
    pub(super) fn finish(mut self, outcome: Result<usize, Code>) -> bool {
        let (word, bytes) = match outcome {
            Ok(bytes) => (ToolCall::ANSWERED, bytes),
            Err(code) => (code.as_str(), 0),
        };
        self.event.result_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.tell(word)
    }

    fn tell(&mut self, outcome: &str) -> bool {
        self.is_told = true;
        let mut event = self.event.clone();
        event.outcome = outcome.to_owned();
        event.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.shared.tell(event)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if !self.is_told {
            let is_broken = std::thread::panicking();
            self.tell(if is_broken { Code::Broken } else { Code::Cancelled }.as_str());
        }
    }
}
