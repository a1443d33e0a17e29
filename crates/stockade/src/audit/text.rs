//! Events as lines for people.

use stockade_policy::{Denial, Printable};
use stockade_record::{
    Body, Command, Egress, Event, ExecutionEnded, ExecutionStarted, OutputCounts, PortEvent,
    SessionStarted, ToolCall, VerdictGiven,
};

use crate::shell::shell_word;

/// Digits of a hash that identify it in text output.
const SHORT_HASH: usize = 12;

/// One event as one line, with its line end.
pub(super) fn event(event: &Event) -> String {
    let Event { sequence, time, body, .. } = event;
    let told = Printable(&told(body)).to_string();
    let whose =
        body.execution().map_or_else(|| "session".to_owned(), |number| format!("run {number}"));
    format!("{sequence:>4}  {time}  {whose:<7}  {:<17} {told}\n", body.kind())
}

/// A command as a user would type it.
pub(super) fn command(command: &Command) -> String {
    let words: Vec<String> = command.argv.iter().map(|word| shell_word(word)).collect();
    let code = command.code.as_ref().map(|code| format!("{} ({})", code.name, code.language));
    let words = code.into_iter().chain(words).collect::<Vec<_>>().join(" ");
    Printable(&words).to_string()
}

fn told(body: &Body) -> String {
    match body {
        Body::SessionStarted(started) => session_started(started),
        Body::Verdict(verdict) => verdict_given(verdict),
        Body::ExecutionStarted(started) => execution_started(started),
        Body::Egress(one) => egress(one),
        Body::ToolCall(call) => tool_call(call),
        Body::FileOperation(one) => {
            format!("{} {}: {}, {} bytes", one.operation, one.path, one.outcome, one.bytes)
        }
        Body::Port(event) => port(event),
        Body::SecretReplaced(event) => format!("the secret {} has a new value", event.name),
        Body::LimitHit(hit) if hit.ended => format!("{} ended the program", hit.limit),
        Body::LimitHit(hit) => format!("{} refused something", hit.limit),
        Body::Denial(denied) => refusal(&denied.denial),
        Body::ExecutionEnded(ended) => execution_ended(ended),
        Body::SessionEnded(ended) => format!("{}; the record is complete", ended.outcome),
    }
}

fn port(event: &PortEvent) -> String {
    let PortEvent { act, port, address, peer, sent_bytes, received_bytes, duration_ms, .. } = event;
    let mut line = format!("{act} port {port}");
    if let Some(address) = address {
        line.push_str(&format!(" at {address}"));
    }
    if let Some(peer) = peer {
        line.push_str(&format!(" from {peer}"));
    }
    if act == PortEvent::CONNECTION {
        let counts = format!(", {sent_bytes} bytes in, {received_bytes} out, {duration_ms} ms");
        line.push_str(&counts);
    }
    match (&event.denial, &event.why) {
        (Some(denial), _) => line.push_str(&format!(": {} ({})", denial.why, denial.rule)),
        (None, Some(why)) => line.push_str(&format!(": {why}")),
        (None, None) => {}
    }
    line
}

fn session_started(started: &SessionStarted) -> String {
    let SessionStarted { stockade, policy, user, command: run, .. } = started;
    let hash: String = policy.sha256.to_string().chars().take(SHORT_HASH).collect();
    let name = &policy.name;
    format!("{} (stockade {stockade}, user {user}, policy {name} {hash})", command(run))
}

fn verdict_given(given: &VerdictGiven) -> String {
    let VerdictGiven { verdict, target, why, rule, .. } = given;
    format!("{} {target}: {why} ({rule})", verdict.as_str())
}

fn refusal(denial: &Denial) -> String {
    let Denial { target, why, rule, how_to_allow, .. } = denial;
    format!("deny {target}: {why} ({rule}); to allow it, {how_to_allow}")
}

fn egress(egress: &Egress) -> String {
    let port = egress.port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = egress.path.as_deref().unwrap_or_default();
    let method = egress.method.as_deref().unwrap_or("unknown");
    let status = egress.status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
    let mut line = format!(
        "{} {method} {}{port}{path} status {status}, {} bytes out, {} in, {} ms",
        egress.verdict.as_str(),
        egress.host,
        egress.sent_bytes,
        egress.received_bytes,
        egress.duration_ms
    );
    match (&egress.denial, &egress.failure) {
        (Some(denial), _) => line.push_str(&format!(": {} ({})", denial.why, denial.rule)),
        (None, Some(failure)) => line.push_str(&format!(": {failure}")),
        (None, None) => {}
    }
    line
}

fn tool_call(call: &ToolCall) -> String {
    let mut line = format!(
        "{} {}: {}, {} bytes of arguments, {} of result, {} ms",
        call.verdict.as_str(),
        call.tool,
        call.outcome,
        call.argument_bytes,
        call.result_bytes,
        call.duration_ms
    );
    if let Some(denial) = &call.denial {
        line.push_str(&format!(": {} ({})", denial.why, denial.rule));
    }
    if let Some(arguments) = &call.arguments {
        line.push_str(&format!("; with {arguments}"));
    }
    line
}

fn execution_started(started: &ExecutionStarted) -> String {
    let ExecutionStarted { provider, isolation, variables, .. } = started;
    let mut line = format!("behind the {provider} wall, isolation {isolation}");
    if !variables.is_empty() {
        line.push_str(&format!(", with {}", variables.join(", ")));
    }
    line
}

fn execution_ended(ended: &ExecutionEnded) -> String {
    let code = ended.exit_code.map(|code| format!(" with {code}")).unwrap_or_default();
    let signal = ended.signal.map(|signal| format!(" of signal {signal}")).unwrap_or_default();
    let why = ended.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let (out, errors) = (printed(&ended.stdout), printed(&ended.stderr));
    let (outcome, took) = (&ended.outcome, ended.duration_ms);
    format!("{outcome}{code}{signal}{why}, after {took} ms, printed {out} and {errors} bytes")
}

fn printed(counts: &OutputCounts) -> u64 {
    counts.kept_bytes.saturating_add(counts.dropped_bytes)
}
