//! The report of an execution.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use stockade_policy::{Denial, Limit};
use stockade_provider::{HeldControl, Plan, Precision, StartNote};
use stockade_record::SessionId;

use crate::{Audit, Learned, Outcome, StreamOutput, signal_name};

/// The report of one execution.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Its standard output.
    pub stdout: StreamOutput,
    /// Its standard error.
    pub stderr: StreamOutput,
    /// From the request to the start of the program.
    pub start: Duration,
    /// From the start to the end of the program.
    pub duration: Duration,
    /// The resources it used.
    pub usage: Usage,
    /// Limits that refused something without ending the program.
    pub limits_hit: BTreeSet<Limit>,
    /// What was denied.
    pub denials: Vec<Denial>,
    /// Acts that were allowed and require a record.
    pub audits: Vec<Audit>,
    /// Hosts that the program reached while the gate was learning.
    pub learned: Vec<Learned>,
    /// The number of tool calls, with any result.
    pub tool_calls: u64,
    /// The last 8 KiB of standard error, however much of it was kept.
    pub stderr_tail: Vec<u8>,
    /// The wall with every control it enforced; `None` if no wall was built.
    pub plan: Option<Plan>,
    /// The session, if a record is kept.
    pub session: Option<SessionId>,
    /// The file of the record.
    pub record: Option<PathBuf>,
}

/// The resources that an execution used, from the kernel. `None` if this host's kernel does not
/// report a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time.
    pub cpu_time: Option<Duration>,
    /// The most memory at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks at once.
    pub tasks_peak: Option<u64>,
}

impl RunReport {
    /// The report of a program that never ran.
    pub(crate) fn unstarted(outcome: Outcome, plan: Option<Plan>) -> RunReport {
        let denials = match &outcome {
            Outcome::Denied { denial } => vec![denial.clone()],
            _ => Vec::new(),
        };
        RunReport {
            outcome,
            stdout: StreamOutput::default(),
            stderr: StreamOutput::default(),
            start: Duration::ZERO,
            duration: Duration::ZERO,
            usage: Usage::default(),
            limits_hit: BTreeSet::new(),
            denials,
            audits: Vec::new(),
            learned: Vec::new(),
            tool_calls: 0,
            stderr_tail: Vec::new(),
            plan,
            session: None,
            record: None,
        }
    }
}

impl Serialize for RunReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RunView::of(self).serialize(serializer)
    }
}

/// The report as JSON.
#[derive(Serialize)]
struct RunView<'r> {
    outcome: &'static str,
    /// The program's own exit code.
    exit_code: Option<i32>,
    signal: Option<SignalView>,
    /// The key of the limit that ended it.
    limit: Option<&'static str>,
    not_started: Option<NotStartedView<'r>>,
    /// The operation for which its runtime stopped the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    trap: Option<&'r str>,
    stdout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    output: OutputView,
    start_ms: u64,
    duration_ms: u64,
    usage: UsageView,
    limits_hit: Vec<&'static str>,
    denials: &'r [Denial],
    audits: &'r [Audit],
    provider: Option<&'static str>,
    isolation: Option<IsolationView<'r>>,
    session: Option<&'r SessionId>,
    record: Option<&'r Path>,
}

#[derive(Serialize)]
struct SignalView {
    number: i32,
    name: String,
}

#[derive(Serialize)]
struct NotStartedView<'r> {
    program: &'r str,
    errno: i32,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_call: Option<&'r str>,
}

#[derive(Serialize)]
struct OutputView {
    stdout: CountView,
    stderr: CountView,
}

#[derive(Serialize)]
struct CountView {
    kept_bytes: u64,
    dropped_bytes: u64,
}

#[derive(Serialize)]
struct UsageView {
    cpu_ms: Option<u64>,
    memory_peak_bytes: Option<u64>,
    tasks_peak: Option<u64>,
    tool_calls: u64,
}

#[derive(Serialize)]
struct IsolationView<'r> {
    provider: &'static str,
    level: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'r StartNote>,
    controls: Vec<ControlView<'r>>,
}

#[derive(Serialize)]
struct ControlView<'r> {
    control: &'static str,
    clause: &'r str,
    asks: &'r str,
    mechanism: &'r str,
    precision: Precision,
}

impl RunView<'_> {
    fn of(report: &RunReport) -> RunView<'_> {
        let (stdout, stdout_base64) = text(&report.stdout.bytes);
        let (stderr, stderr_base64) = text(&report.stderr.bytes);
        let outcome = &report.outcome;
        RunView {
            outcome: outcome.as_str(),
            exit_code: match outcome {
                Outcome::Exited { code } => Some(*code),
                _ => None,
            },
            signal: match outcome {
                Outcome::Signaled { signal } => {
                    Some(SignalView { number: *signal, name: signal_name(*signal) })
                }
                _ => None,
            },
            limit: outcome.limit().map(|limit| limit.spec().key),
            not_started: match outcome {
                Outcome::NotStarted { errno, program, refused_call } => {
                    let error = std::io::Error::from_raw_os_error(*errno).to_string();
                    let refused_call = refused_call.as_deref();
                    Some(NotStartedView { program, errno: *errno, error, refused_call })
                }
                _ => None,
            },
            trap: match outcome {
                Outcome::Trapped { reason } => Some(reason),
                _ => None,
            },
            stdout,
            stdout_base64,
            stderr,
            stderr_base64,
            output: OutputView { stdout: counts(&report.stdout), stderr: counts(&report.stderr) },
            start_ms: milliseconds(report.start),
            duration_ms: milliseconds(report.duration),
            usage: UsageView {
                cpu_ms: report.usage.cpu_time.map(milliseconds),
                memory_peak_bytes: report.usage.memory_peak_bytes,
                tasks_peak: report.usage.tasks_peak,
                tool_calls: report.tool_calls,
            },
            limits_hit: report.limits_hit.iter().map(|limit| limit.spec().key).collect(),
            denials: &report.denials,
            audits: &report.audits,
            provider: report.plan.as_ref().map(|plan| plan.provider.as_str()),
            isolation: report.plan.as_ref().map(isolation),
            session: report.session.as_ref(),
            record: report.record.as_deref(),
        }
    }
}

/// The wall and what it enforced.
fn isolation<'p>(plan: &'p Plan) -> IsolationView<'p> {
    let view = |held: &'p HeldControl| {
        let HeldControl { requirement, mechanism, precision } = held;
        ControlView {
            control: requirement.control.as_str(),
            clause: &requirement.clause,
            asks: &requirement.asks,
            mechanism,
            precision: *precision,
        }
    };
    IsolationView {
        provider: plan.provider.as_str(),
        level: plan.isolation.as_str(),
        start: plan.start.as_ref(),
        controls: plan.controls.iter().map(view).collect(),
    }
}

/// Bytes as text, and additionally encoded if they are not valid UTF-8.
fn text(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(STANDARD.encode(bytes))),
    }
}

fn counts(stream: &StreamOutput) -> CountView {
    CountView { kept_bytes: stream.kept_bytes, dropped_bytes: stream.dropped_bytes }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn view(report: &RunReport) -> Value {
        serde_json::to_value(report).unwrap()
    }

    #[test]
    fn report_of_a_program_that_exited_has_its_code_and_text() {
        let mut report = RunReport::unstarted(Outcome::Exited { code: 3 }, None);
        report.stdout = StreamOutput { bytes: b"hi\n".to_vec(), kept_bytes: 3, dropped_bytes: 4 };
        report.limits_hit.insert(Limit::Output);
        let view = view(&report);
        assert_eq!(view["outcome"], "exited");
        assert_eq!(view["exit_code"], 3);
        assert_eq!((&view["signal"], &view["isolation"]), (&Value::Null, &Value::Null));
        assert_eq!(view["stdout"], "hi\n");
        assert!(view.get("stdout_base64").is_none());
        assert_eq!(view["output"]["stdout"], json!({ "kept_bytes": 3, "dropped_bytes": 4 }));
        assert_eq!(view["limits_hit"], json!(["max_output_bytes"]));
    }

    #[test]
    fn output_that_is_not_utf8_is_also_reported_exactly() {
        let mut report = RunReport::unstarted(Outcome::Exited { code: 0 }, None);
        report.stderr.bytes = b"a\xff".to_vec();
        let view = view(&report);
        assert_eq!(
            (&view["stderr"], &view["stderr_base64"]),
            (&json!("a\u{fffd}"), &json!("Yf8="))
        );
    }

    #[test]
    fn exit_code_is_the_programs_own_or_absent() {
        let program = "nowhere".to_owned();
        let outcomes = [
            Outcome::TimedOut,
            Outcome::Signaled { signal: 9 },
            Outcome::NotStarted { errno: 2, program, refused_call: None },
        ];
        let views = outcomes.map(|outcome| view(&RunReport::unstarted(outcome, None)));
        assert!(views.iter().all(|view| view["exit_code"].is_null()));
        assert_eq!(views[0]["limit"], "timeout_seconds");
        assert_eq!(views[1]["signal"], json!({ "number": 9, "name": "SIGKILL" }));
        assert_eq!(views[2]["not_started"]["errno"], 2);
    }
}
