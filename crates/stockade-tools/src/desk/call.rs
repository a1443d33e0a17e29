//! One call: judged, checked, run, and checked again.

use std::sync::Arc;

use serde_json::Value;
use stockade_policy::Limit;
use tokio::time::{Instant, timeout_at};

use crate::desk::account::Account;
use crate::desk::request::{Id, error_line, result_line};
use crate::desk::shared::Shared;
use crate::fault::{Code, Fault};
use crate::json::{JsonError, measure};
use crate::run::Call;
use crate::task::{AbortOnDrop, ended};
use crate::tool::Tool;
use crate::words::{counted, harmless};

/// Values from this many bytes on are worked on by a thread that may block.
pub(super) const LARGE: usize = 256 << 10;

/// A call that was read.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// Bytes of its line.
    pub(super) line_bytes: usize,
    pub(super) deadline: Instant,
    pub(super) account: Account,
}

/// The line that answers a call; none where it could not be recorded. Dropping the future
/// cancels the call.
pub(super) async fn answer(shared: Arc<Shared>, asked: Asked) -> Option<Vec<u8>> {
    let id = asked.id.clone();
    // As a task of its own, so that a panic is that of this call only.
    let mut task = AbortOnDrop(tokio::spawn(settle(shared, asked)));
    match (&mut task.0).await {
        Ok(line) => line,
        Err(error) => Some(error_line(&id, &ended(error))),
    }
}

async fn settle(shared: Arc<Shared>, asked: Asked) -> Option<Vec<u8>> {
    let id = asked.id.clone();
    let deadline = asked.deadline;
    let desk = Arc::clone(&shared);
    let (account, admitted) = if asked.line_bytes >= LARGE {
        let admitted = shared.work(move || admit(&desk, asked)).await;
        match admitted {
            Ok(admitted) => admitted,
            Err(error) => return Some(error_line(&id, &ended(error))),
        }
    } else {
        admit(&desk, asked)
    };
    let outcome = match admitted {
        Ok((tool, call)) => run(&shared, &tool, call, deadline).await,
        Err(fault) => Err(fault),
    };
    let code = match &outcome {
        Ok(result) => Ok(result.len()),
        Err(fault) => Err(fault.code),
    };
    // First the record, then the answer.
    account.finish(code).then(|| match &outcome {
        Ok(result) => result_line(&id, result),
        Err(fault) => error_line(&id, fault),
    })
}

type Admitted = (Account, Result<(Tool, Call), Fault>);

/// Whether the call may run. What costs least is asked first.
fn admit(shared: &Shared, asked: Asked) -> Admitted {
    let Asked { tool, arguments, mut account, .. } = asked;
    let judged = judge(shared, &mut account, &tool, arguments);
    (account, judged)
}

fn judge(
    shared: &Shared,
    account: &mut Account,
    name: &str,
    arguments: Value,
) -> Result<(Tool, Call), Fault> {
    let bounds = shared.limits.bounds;
    let shown = harmless(name, 140);
    if shared.limits.rate.as_ref().is_some_and(|rate| !rate.take()) {
        let why = "more calls in a second than max_tool_calls_per_second allows".to_owned();
        let denial = shared.beyond(Limit::ToolRate, &shown, why);
        account.denied(&denial);
        let message = format!("{}; wait, or {} in the policy", denial.why, denial.how_to_allow);
        return Err(Fault::new(Code::TooMany, message));
    }
    let bytes = measure(&arguments, bounds).map_err(|error| {
        let (limit, code) = match error {
            JsonError::TooDeep { .. } => (Limit::ToolDepth, Code::TooDeep),
            _ => (Limit::ToolBytes, Code::TooLarge),
        };
        let denial = shared.beyond(limit, &shown, format!("the arguments {error}"));
        account.denied(&denial);
        Fault::new(code, format!("{}; {} in the policy", denial.why, denial.how_to_allow))
    })?;
    account.arguments(&arguments, bytes);
    let verdict = shared.policy.judge_tool(name, Some(&arguments), &shared.context());
    if let Some(denial) = verdict.denial() {
        account.denied(&denial);
        let message = format!("{}; to allow it, {}", denial.why, denial.how_to_allow);
        return Err(Fault::new(Code::Denied, message));
    }
    account.allowed(&verdict);
    let tool = shared.tools.get(name).cloned().ok_or_else(|| {
        let message = format!(
            "the policy lists `{shown}`, but nobody offers it; add it to the tools of this run"
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
        account.denied(&denial);
        let message = format!("{}; {} in the policy", denial.why, denial.how_to_allow);
        return Err(Fault::new(Code::Limit, message));
    }
    Ok((tool, Call { arguments, bounds }))
}

/// The result of a call that was let through, as compact JSON.
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
                Fault::new(Code::InvalidResult, format!("the tool broke its promise: {why}"))
            })?;
        }
        serde_json::to_vec(&result).map_err(|error| Fault::broken(error.to_string()))
    };
    // A policy with large bounds has large results.
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
    let message = format!("the tool did not answer within {most}; {who} says so");
    Fault::new(Code::TimedOut, message)
}
