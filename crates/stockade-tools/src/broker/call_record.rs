//! The record of one call, written when it ends.

use std::sync::Arc;

use serde_json::Value;
use stockade_policy::{Denial, Effect, ToolArguments, Verdict};
use stockade_provider::caller;
use stockade_record::ToolCall;
use tokio::time::Instant;

use crate::broker::shared::{Served, Shared};
use crate::fault::Code;
use crate::words::harmless;

/// Collects what happened and records it exactly once: when the call finishes, or when it is
/// dropped because the call was cancelled or panicked.
#[derive(Debug)]
pub(super) struct CallRecord {
    shared: Arc<Shared>,
    started: Instant,
    event: ToolCall,
    is_recorded: bool,
    /// Dropped after the event is recorded: then the call no longer counts as served.
    _served: Served,
}

impl CallRecord {
    pub(super) fn new(shared: &Arc<Shared>, tool: &str, started: Instant) -> CallRecord {
        let event = ToolCall {
            execution: caller().map(|caller| caller.0),
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
        CallRecord {
            shared: Arc::clone(shared),
            started,
            event,
            is_recorded: false,
            _served: served,
        }
    }

    /// The fixed rule that refused the request.
    pub(super) fn refused(&mut self, rule: &str) {
        self.event.rule = format!("built in: {rule}");
    }

    pub(super) fn arguments(&mut self, arguments: &Value, bytes: usize) {
        self.event.argument_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.shared.policy.tool_arguments.value == ToolArguments::Record {
            // Longer arguments are cut when recorded; this length is enough for that.
            let text = arguments.to_string();
            self.event.arguments = Some(harmless(&text, 2 * ToolCall::MAX_ARGUMENT_BYTES));
        }
    }

    /// The rule that allowed the call.
    pub(super) fn allowed(&mut self, verdict: &Verdict) {
        self.event.verdict = verdict.effect;
        self.event.rule = verdict.basis.to_string();
    }

    /// The denial that refused the call.
    pub(super) fn denied(&mut self, denial: &Denial) {
        self.event.verdict = Effect::Deny;
        self.event.rule = denial.rule.clone();
        self.event.denial = Some(denial.clone());
    }

    /// Records the outcome: a result of so many bytes, or an error. Returns whether it was
    /// recorded; only then may the call be answered.
    pub(super) fn finish(mut self, outcome: Result<usize, Code>) -> bool {
        let (word, bytes) = match outcome {
            Ok(bytes) => (ToolCall::ANSWERED, bytes),
            Err(code) => (code.as_str(), 0),
        };
        self.event.result_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.record(word)
    }

    fn record(&mut self, outcome: &str) -> bool {
        self.is_recorded = true;
        let mut event = self.event.clone();
        event.outcome = outcome.to_owned();
        event.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.shared.record(event)
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if !self.is_recorded {
            let is_broken = std::thread::panicking();
            self.record(if is_broken { Code::Broken } else { Code::Cancelled }.as_str());
        }
    }
}
