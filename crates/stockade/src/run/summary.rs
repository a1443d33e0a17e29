//! What Stockade prints about a run in addition to the program's output.

use std::time::Duration;

use stockade_engine::{Outcome, RunReport, signal_name};
use stockade_policy::{Denial, Isolation, Limit, Policy, is_harmless};

/// The lines for a person, without their prefix; empty for a program that exited behind an ordinary
/// wall.
pub(crate) fn lines(report: &RunReport, policy: &Policy, hints: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = wall(report).into_iter().chain(start(report)).collect();
    lines.extend(outcome(report, policy));
    // The outcome has named the limit that ended the program.
    let is_named = |limit: &Limit| {
        let Outcome::LimitExceeded { limit: named } = &report.outcome else { return false };
        limit == named
    };
    for limit in report.limits_hit.iter().filter(|limit| !is_named(limit)) {
        lines.push(limit_hit(*limit, report, policy));
    }
    if !matches!(report.outcome, Outcome::Denied { .. }) {
        lines.extend(report.denials.iter().map(in_one_line));
    }
    for audit in &report.audits {
        lines.push(format!("recorded {}: {}", on_one_line(&audit.target), on_one_line(&audit.why)));
    }
    lines.extend(hints.iter().map(|hint| format!("hint: {}", on_one_line(hint))));
    lines
}

/// Reports the use of the reduced wall.
fn wall(report: &RunReport) -> Option<String> {
    let plan = report.plan.as_ref().filter(|plan| plan.isolation == Isolation::Reduced)?;
    Some(format!("the {} wall was used: no namespaces, and less hidden of the host", plan.provider))
}

/// Reports a start that took a slower way than usual.
fn start(report: &RunReport) -> Option<String> {
    let note = report.plan.as_ref()?.start.as_ref()?;
    let because = note.because.as_ref()?;
    Some(format!("the sandbox {}: {}", note.how, on_one_line(because)))
}

fn outcome(report: &RunReport, policy: &Policy) -> Option<String> {
    Some(match &report.outcome {
        Outcome::Exited { .. } => return None,
        Outcome::Signaled { signal } => format!("killed by {}", signal_name(*signal)),
        Outcome::TimedOut => {
            let limit = policy.limits.value(Limit::Timeout).unwrap_or(0);
            let path = Limit::Timeout.spec().path();
            format!("timed out after {} (limit {path})", seconds(Duration::from_millis(limit)))
        }
        Outcome::OutOfMemory => format!("out of memory ({})", limit_of(Limit::Memory, policy)),
        Outcome::LimitExceeded { limit } => {
            format!("ended by Stockade ({})", limit_of(*limit, policy))
        }
        Outcome::Denied { denial } => format!("denied {}", refusal(denial)),
        Outcome::NotStarted { program, refused_call: Some(call), .. } => {
            format!("cannot start {program}: the policy's seccomp profile refuses {call}")
        }
        Outcome::NotStarted { errno, program, refused_call: None } => {
            let error = std::io::Error::from_raw_os_error(*errno);
            format!("cannot start {}: {error}", on_one_line(program))
        }
        Outcome::Trapped { reason } => format!("stopped by its runtime: {reason}"),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::EngineLost => "the sandbox was lost: its first process is gone".to_owned(),
    })
}

/// A denial in one line, because a program can cause many.
fn in_one_line(denial: &Denial) -> String {
    let [target, why, rule, how_to_allow] = parts(denial);
    format!("denied {target}: {why}; decided by {rule}; to allow it: {how_to_allow}")
}

fn refusal(denial: &Denial) -> String {
    let [target, why, rule, how_to_allow] = parts(denial);
    format!("{target}: {why}\n  decided by {rule}\n  = {how_to_allow}")
}

fn parts(denial: &Denial) -> [String; 4] {
    let Denial { target, why, rule, how_to_allow, .. } = denial;
    [target, why, rule, how_to_allow].map(|part| on_one_line(part))
}

/// A text that a program may have chosen, such as a file name, without line ends: it cannot forge a
/// line of Stockade.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match is_harmless(character) {
            true => line.push(character),
            false => line.extend(character.escape_unicode()),
        }
    }
    line
}

fn limit_hit(limit: Limit, report: &RunReport, policy: &Policy) -> String {
    let limited = limit_of(limit, policy);
    if limit != Limit::Output {
        return format!("{} ({limited})", refused_by(limit));
    }
    let (stdout, stderr) = (&report.stdout, &report.stderr);
    format!(
        "output kept {} bytes and dropped {} ({limited})",
        stdout.kept_bytes + stderr.kept_bytes,
        stdout.dropped_bytes + stderr.dropped_bytes
    )
}

/// What happens at a limit that does not end the program.
fn refused_by(limit: Limit) -> &'static str {
    match limit {
        Limit::Pids => "a new process or thread was refused",
        Limit::Disk => "a write was refused: the files inside are full",
        Limit::Inodes => "a new file was refused: there are too many inside",
        Limit::Memory => "a process inside was killed for memory, not the main one",
        Limit::Connections => "a connection was refused: too many were open",
        Limit::ForwardedPorts => "a port was not forwarded: too many were",
        Limit::EgressRate => "the network was slowed down",
        Limit::ToolCalls => "a tool call was refused: no more are allowed",
        Limit::ToolTime => "a tool call was ended: it took too long",
        Limit::ToolBytes => "a tool call was refused: it was too large",
        Limit::ToolDepth => "a tool call was refused: its value was nested too deeply",
        Limit::ToolRate => "a tool call had to wait, or was refused: too many in a short time",
        Limit::ToolsAtOnce => "a tool call was refused: too many were running",
        Limit::OpenFiles => "a file was refused: too many were open",
        Limit::EgressBytes => "a connection was closed: too many bytes were sent and received",
        Limit::CpuTime => "a process was killed: it used too much processor time",
        Limit::IoRate => "reading and writing files was slowed down",
        Limit::Cpu => "programs were slowed down: they wanted more processor time",
        Limit::Output => "output was dropped",
        Limit::Timeout | Limit::CancelGrace | Limit::TimeoutGrace => "a program ran out of time",
        Limit::Lifetime | Limit::Idle => "the session has ended",
    }
}

/// A limit with its value, as a policy writes it.
fn limit_of(limit: Limit, policy: &Policy) -> String {
    let spec = limit.spec();
    let value = policy.limits.value(limit).map(|held| spec.unit.write(held)).unwrap_or_default();
    let amount = format!("{value} {}", spec.unit.as_str());
    format!("limit {}: {}", spec.path(), amount.trim())
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
