//! One call: judged, checked, run, and its result checked.

use std::sync::Arc;

use serde_json::Value;
use stockade_policy::Limit;
use tokio::time::{Instant, timeout_at};

use crate::broker::call_record::CallRecord;
use crate::broker::request::{Id, error_line, result_line};
use crate::broker::shared::Shared;
use crate::fault::{Code, Fault};
use crate::json::{JsonError, measure};
use crate::run::Call;
use crate::task::{AbortOnDrop, ended};
use crate::tool::Tool;
use crate::words::{counted, harmless};

/// Values of at least this many bytes are processed on a blocking thread.
pub(super) const LARGE: usize = 256 << 10;

/// A parsed call.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) id: Id,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// The length of its line in bytes.
    pub(super) line_bytes: usize,
    pub(super) deadline: Instant,
    pub(super) record: CallRecord,
}

/// Returns the line that answers a call, or `None` if the call could not be recorded. Dropping the
/// future cancels the call.
pub(super) async fn answer(shared: Arc<Shared>, pending: PendingCall) -> Option<Vec<u8>> {
    let id = pending.id.clone();
    // Runs in its own task, so that a panic fails only this call.
    let mut task = AbortOnDrop(tokio::spawn(run_and_record(shared, pending)));
    match (&mut task.0).await {
        Ok(line) => line,
        Err(error) => Some(error_line(&id, &ended(error))),
    }
}

async fn run_and_record(shared: Arc<Shared>, pending: PendingCall) -> Option<Vec<u8>> {
    let id = pending.id.clone();
    let deadline = pending.deadline;
    let broker = Arc::clone(&shared);
    let (record, admitted) = if pending.line_bytes >= LARGE {
        let admitted = shared.work(move || admit(&broker, pending)).await;
        match admitted {
            Ok(admitted) => admitted,
            Err(error) => return Some(error_line(&id, &ended(error))),
        }
    } else {
        admit(&broker, pending)
    };
    let outcome = match admitted {
        Ok((tool, call)) => run(&shared, &tool, call, deadline).await,
        Err(fault) => Err(fault),
    };
    let code = match &outcome {
        Ok(result) => Ok(result.len()),
        Err(fault) => Err(fault.code),
    };
    // Records first, then answers.
    record.finish(code).then(|| match &outcome {
        Ok(result) => result_line(&id, result),
        Err(fault) => error_line(&id, fault),
    })
}

type Admitted = (CallRecord, Result<(Tool, Call), Fault>);

/// Whether the call may run. The cheapest checks come first.
fn admit(shared: &Shared, pending: PendingCall) -> Admitted {
    let PendingCall { tool, arguments, mut record, .. } = pending;
    let judged = judge(shared, &mut record, &tool, arguments);
    (record, judged)
}

fn judge(
    shared: &Shared,
    record: &mut CallRecord,
    name: &str,
    arguments: Value,
) -> Result<(Tool, Call), Fault> {
    let bounds = shared.limits.bounds;
    let shown = harmless(name, 140);
    if shared.limits.rate.as_ref().is_some_and(|rate| !rate.take()) {
        let why = "more calls in a second than max_tool_calls_per_second allows".to_owned();
        let denial = shared.beyond(Limit::ToolRate, &shown, why);
        record.denied(&denial);
        let message = format!("{}; wait, or {} in the policy", denial.why, denial.how_to_allow);
        return Err(Fault::new(Code::TooMany, message));
    }
    let bytes = measure(&arguments, bounds).map_err(|error| {
        let (limit, code) = match error {
            JsonError::TooDeep { .. } => (Limit::ToolDepth, Code::TooDeep),
            _ => (Limit::ToolBytes, Code::TooLarge),
        };
        let denial = shared.beyond(limit, &shown, format!("the arguments {error}"));
        record.denied(&denial);
        Fault::new(code, format!("{}; {} in the policy", denial.why, denial.how_to_allow))
    })?;
    record.arguments(&arguments, bytes);
    let verdict = shared.policy.judge_tool(name, Some(&arguments), &shared.context());
    if let Some(denial) = verdict.denial() {
        record.denied(&denial);
        let message = format!("{}; to allow it, {}", denial.why, denial.how_to_allow);
        return Err(Fault::new(Code::Denied, message));
    }
    record.allowed(&verdict);
    let tool = shared.tools.get(name).cloned().ok_or_else(|| {
        let message = format!(
            "the policy lists `{shown}`, but the host does not offer it; add it to the tools of this run"
        );
        Fault::new(Code::Unknown, message)
    })?;
    tool.input
        .check(&arguments, bytes, "arguments")
        .map_err(|why| Fault::new(Code::InvalidArguments, why))?;
    if shared.count().is_err() {
        let most = shared.limits.most_calls;
        let verb = if most == 1 { "was" } else { "were" };
        let made = counted(most, "call");
        let why = format!("{made} {verb} made already, as many as max_tool_calls allows");
        let denial = shared.beyond(Limit::ToolCalls, &shown, why);
        record.denied(&denial);
        let message = format!("{}; {} in the policy", denial.why, denial.how_to_allow);
        return Err(Fault::new(Code::Limit, message));
    }
    Ok((tool, Call { arguments, bounds }))
}

/// The result of an allowed call, as compact JSON.
async fn run(
    shared: &Shared,
    tool: &Tool,
    call: Call,
    deadline: Instant,
) -> Result<Vec<u8>, Fault> {
    let bounds = call.bounds;
    let own = tool.most_time.map(|most| Instant::now() + most);
    let until = own.map_or(deadline, |own| own.min(deadline));
    let result = timeout_at(until, tool.run.run(call)).await;
    let result = result.unwrap_or_else(|_| Err(late(shared, tool, until == deadline)));
    let noted = |fault: &Fault| match fault.code {
        Code::TooLarge => shared.hit(Limit::ToolBytes),
        Code::TooDeep => shared.hit(Limit::ToolDepth),
        _ => {}
    };
    let result = result.inspect_err(noted)?;
    let output = tool.output.clone();
    let conclude = move || {
        let bytes = measure(&result, bounds).map_err(|error| Fault::result(&error))?;
        if let Some(schema) = output {
            let checked = schema.check(&result, bytes, "result");
            checked.map_err(|why| {
                Fault::new(
                    Code::InvalidResult,
                    format!("the tool's result does not fit its schema: {why}"),
                )
            })?;
        }
        serde_json::to_vec(&result).map_err(|error| Fault::broken(error.to_string()))
    };
    // A policy with large bounds allows large results.
    let concluded = if bounds.bytes > 16 * LARGE {
        shared.work(conclude).await.unwrap_or_else(|error| Err(ended(error)))
    } else {
        conclude()
    };
    concluded.inspect_err(noted)
}

fn late(shared: &Shared, tool: &Tool, is_policy: bool) -> Fault {
    let (most, who) = match tool.most_time {
        Some(most) if !is_policy => (most, "timeout_seconds of the tool"),
        _ => {
            shared.hit(Limit::ToolTime);
            (shared.limits.most_time, "max_tool_seconds in the policy")
        }
    };
    let most = counted(most.as_secs_f64(), "second");
    let message = format!("the tool did not answer within {most}; the limit is {who}");
    Fault::new(Code::TimedOut, message)
}
