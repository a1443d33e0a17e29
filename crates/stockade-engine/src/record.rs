//! Writes the events of an execution to the record of its session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stockade_policy::{Control, Denial, Limit, Policy, Verdict};
use stockade_provider::{Plan, Program};
use stockade_record::{
    Body, CodeDigest, Command, Denied, Egress, ExecutionEnded, ExecutionStarted, LimitHit,
    OutputCounts, PolicyDigest, Recorder, SessionStarted, Sink, ToolCall, Unrecorded, UsageCounts,
    VerdictGiven,
};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::report::milliseconds;
use crate::{Outcome, RunError, RunReport, StreamOutput};

/// The version in every record; all crates share it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The number of the one execution of a session.
const EXECUTION: u64 = 0;

/// The record of one run, if one is kept.
pub(crate) struct Record {
    recorder: Option<Arc<Recorder>>,
    is_executing: AtomicBool,
}

impl Record {
    pub(crate) fn of(recorder: Option<Arc<Recorder>>) -> Record {
        Record { recorder, is_executing: AtomicBool::new(false) }
    }

    /// Resolves when a write to the record fails.
    pub(crate) async fn failed(&self) {
        match &self.recorder {
            Some(recorder) => recorder.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Writes the first event.
    pub(crate) fn begin(&self, request: &Asked<'_>) -> Result<(), RunError> {
        self.tell(|recorder| {
            recorder.begin(request.started())?;
            recorder.record(Body::Verdict(request.verdict()))
        })
    }

    /// Records that a program is about to start.
    pub(crate) fn execution_started(&self, plan: &Plan) -> Result<(), RunError> {
        self.is_executing.store(true, Ordering::Relaxed);
        let started = ExecutionStarted {
            execution: EXECUTION,
            provider: plan.provider.as_str().to_owned(),
            isolation: plan.isolation.as_str().to_owned(),
        };
        self.tell(|recorder| recorder.record(Body::ExecutionStarted(started)))
    }

    /// Writes the last event, and sets the record's path in the report. Returns an error if the
    /// record could not be written, whatever the outcome was.
    pub(crate) fn end(&self, result: Result<RunReport, RunError>) -> Result<RunReport, RunError> {
        let Some(recorder) = &self.recorder else { return result };
        // The recorder keeps a failure.
        let _ = blocking(|| self.write_end(recorder, &result));
        match recorder.failure() {
            Some(failure) => Err(RunError::Record(failure)),
            None => result.map(|mut report| {
                report.session = Some(recorder.session().clone());
                report.record = recorder.path();
                report
            }),
        }
    }

    fn write_end(
        &self,
        recorder: &Recorder,
        result: &Result<RunReport, RunError>,
    ) -> Result<(), Unrecorded> {
        // An earlier event could not be written; the last one records that, if it can be written.
        let failure = recorder.failure().map(RunError::Record);
        let result = match (&failure, result) {
            (Some(failure), _) => Err(failure),
            (None, result) => result.as_ref(),
        };
        if let Ok(report) = result {
            tell_limits(recorder, report)?;
        }
        if self.is_executing.load(Ordering::Relaxed) {
            recorder.record(Body::ExecutionEnded(execution_ended(result)))?;
        }
        recorder.end(result.map_or("error", |report| report.outcome.as_str()))
    }

    fn tell(&self, tell: impl FnOnce(&Recorder) -> Result<(), Unrecorded>) -> Result<(), RunError> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        blocking(|| tell(recorder))
            .map_err(|Unrecorded| RunError::Record(recorder.failure_or_closed()))
    }
}

/// Adds the execution's number to the events of the gate and the tool broker.
#[derive(Debug)]
pub(crate) struct OfExecution(pub(crate) Arc<Recorder>);

impl Sink for OfExecution {
    fn egress(&self, event: Egress) -> Result<(), Unrecorded> {
        blocking(|| self.0.egress(Egress { execution: Some(EXECUTION), ..event }))
    }

    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded> {
        blocking(|| self.0.tool_call(ToolCall { execution: Some(EXECUTION), ..event }))
    }
}

/// Runs a blocking disk write. A runtime with several threads moves its other tasks to them; a
/// caller with a runtime of one thread has nothing else to do.
fn blocking<T>(write: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(write),
        _ => write(),
    }
}

/// What a record contains of a request.
pub(crate) struct Asked<'r> {
    pub(crate) policy: &'r Policy,
    pub(crate) program: &'r Program,
    pub(crate) variables: Vec<String>,
    pub(crate) user: u32,
    pub(crate) verdict: &'r Verdict,
}

impl Asked<'_> {
    fn started(&self) -> SessionStarted {
        let policy = PolicyDigest::of(&*self.policy.name, &self.policy.to_yaml());
        let command = match self.program {
            Program::Command { argv } => Command::of(argv, None),
            Program::Code { language, name, code, arguments } => {
                let code = CodeDigest::of(language.to_string(), name, code);
                Command::of(arguments, Some(code))
            }
        };
        let mut started = SessionStarted::new(VERSION, policy, self.user, command);
        started.variables.clone_from(&self.variables);
        started
    }

    fn verdict(&self) -> VerdictGiven {
        let verdict = self.verdict;
        VerdictGiven {
            execution: Some(EXECUTION),
            verdict: verdict.effect,
            control: verdict.control.as_str().to_owned(),
            rule: verdict.basis.to_string(),
            target: verdict.target.clone(),
            why: verdict.why.clone(),
            denial: verdict.denial(),
        }
    }
}

fn tell_limits(recorder: &Recorder, report: &RunReport) -> Result<(), Unrecorded> {
    let hit = |limit: Limit, ended| {
        let limit = limit.spec().key.to_owned();
        recorder.record(Body::LimitHit(LimitHit { execution: Some(EXECUTION), limit, ended }))
    };
    for limit in &report.limits_hit {
        hit(*limit, false)?;
    }
    if let Some(limit) = report.outcome.limit() {
        hit(limit, true)?;
    }
    // The verdict event already records a refusal before the start.
    if !matches!(report.outcome, Outcome::Denied { .. }) {
        for denial in report.denials.iter().filter(|denial| !is_of_gate(denial)) {
            let denied = Denied { execution: Some(EXECUTION), denial: denial.clone() };
            recorder.record(Body::Denial(denied))?;
        }
    }
    Ok(())
}

/// Whether the gate or the tool broker made the denial; they record each one themselves.
fn is_of_gate(denial: &Denial) -> bool {
    let controls = [
        Control::Tools,
        Control::Limit(Limit::ToolCalls),
        Control::Limit(Limit::ToolTime),
        Control::Limit(Limit::ToolBytes),
        Control::Limit(Limit::ToolDepth),
        Control::Limit(Limit::ToolRate),
        Control::Limit(Limit::ToolsAtOnce),
        // A rule's denial of the program itself is its outcome; here the rules judged a tool call.
        Control::CodeRules,
        Control::NetworkHosts,
        Control::NetworkPublic,
        Control::NetworkBlock,
        Control::NetworkRequests,
        Control::Limit(Limit::Connections),
    ];
    controls.iter().any(|control| denial.control == control.as_str())
}

fn execution_ended(result: Result<&RunReport, &RunError>) -> ExecutionEnded {
    let mut ended = ExecutionEnded {
        execution: EXECUTION,
        outcome: "error".to_owned(),
        exit_code: None,
        signal: None,
        error: None,
        duration_ms: 0,
        usage: UsageCounts::default(),
        stdout: OutputCounts::default(),
        stderr: OutputCounts::default(),
    };
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            ended.error = Some(stockade_provider::chain(error));
            return ended;
        }
    };
    report.outcome.as_str().clone_into(&mut ended.outcome);
    match report.outcome {
        Outcome::Exited { code } => ended.exit_code = Some(code),
        Outcome::Signaled { signal } => ended.signal = Some(signal),
        _ => {}
    }
    ended.duration_ms = milliseconds(report.duration);
    ended.usage = UsageCounts {
        cpu_ms: report.usage.cpu_time.map(milliseconds),
        memory_peak_bytes: report.usage.memory_peak_bytes,
        tasks_peak: report.usage.tasks_peak,
    };
    (ended.stdout, ended.stderr) = (counts(&report.stdout), counts(&report.stderr));
    ended
}

fn counts(stream: &StreamOutput) -> OutputCounts {
    OutputCounts { kept_bytes: stream.kept_bytes, dropped_bytes: stream.dropped_bytes }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
