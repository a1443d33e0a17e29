//! Writes the events of an execution to the record of its session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_policy::{Control, Denial, Limit, Policy, Verdict};
use stockade_provider::{ExecutionId, ImageRoot, Plan, Program};
use stockade_record::{
    Body, CodeDigest, Command, Denied, Egress, ExecutionEnded, ExecutionStarted, FileOperation,
    ImageUsed, LimitHit, OutputCounts, PolicyDigest, PortEvent, Recorder, SecretReplaced,
    SessionId, SessionStarted, Sink, ToolCall, Unrecorded, UsageCounts, VerdictGiven,
};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::report::milliseconds;
use crate::{Outcome, RunError, RunReport, StreamOutput};

/// The version in every record; all crates share it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The record of one session, if one is kept.
#[derive(Clone)]
pub(crate) struct Record {
    recorder: Option<Arc<Recorder>>,
}

impl Record {
    pub(crate) fn of(recorder: Option<Arc<Recorder>>) -> Record {
        Record { recorder }
    }

    /// Resolves when a write to the record fails.
    pub(crate) async fn failed(&self) {
        match &self.recorder {
            Some(recorder) => recorder.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Writes the first event of a session.
    pub(crate) fn begin(&self, opened: &Opened<'_>) -> Result<(), RunError> {
        self.write(|recorder| recorder.begin(opened.event()))
    }

    /// Records what the policy decided about a program.
    pub(crate) fn verdict(&self, execution: u64, verdict: &Verdict) -> Result<(), RunError> {
        self.write(|recorder| recorder.record(Body::Verdict(given(execution, verdict))))
    }

    /// Records that a program is about to start, with the names of its own variables.
    pub(crate) fn execution_started(
        &self,
        execution: u64,
        plan: &Plan,
        command: Option<Command>,
        variables: Vec<String>,
    ) -> Result<(), RunError> {
        let started = ExecutionStarted {
            execution,
            provider: plan.provider.as_str().to_owned(),
            isolation: plan.isolation.as_str().to_owned(),
            command,
            variables,
        };
        self.write(|recorder| recorder.record(Body::ExecutionStarted(started)))
    }

    /// Records how a program ended.
    pub(crate) fn execution_ended(
        &self,
        execution: u64,
        result: &Result<RunReport, RunError>,
    ) -> Result<(), RunError> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        // An earlier event could not be written; this one records that, if it can be written.
        let failure = recorder.failure().map(RunError::Record);
        let result = match (&failure, result) {
            (Some(failure), _) => Err(failure),
            (None, result) => result.as_ref(),
        };
        self.write(|recorder| {
            if let Ok(report) = result {
                record_limits(recorder, execution, report)?;
            }
            recorder.record(Body::ExecutionEnded(ended(execution, result)))
        })
    }

    /// Records an operation on files.
    pub(crate) fn file_operation(&self, event: FileOperation) -> Result<(), RunError> {
        self.write(|recorder| recorder.record(Body::FileOperation(event.bounded())))
    }

    /// Records what happened to a forwarded port.
    pub(crate) fn port(&self, event: PortEvent) -> Result<(), RunError> {
        self.write(|recorder| recorder.record(Body::Port(event.bounded())))
    }

    /// Records that a secret has a new value.
    pub(crate) fn secret_replaced(&self, name: &str) -> Result<(), RunError> {
        let event = SecretReplaced { name: name.to_owned() };
        self.write(|recorder| recorder.record(Body::SecretReplaced(event)))
    }

    /// Fails if an earlier event could not be written.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self.recorder.as_ref().and_then(|recorder| recorder.failure()) {
            Some(failure) => Err(RunError::Record(failure)),
            None => Ok(()),
        }
    }

    /// Writes the last event of a session.
    pub(crate) fn end(&self, outcome: &str) -> Result<(), RunError> {
        self.write(|recorder| recorder.end(outcome))
    }

    /// Adds the record to a report, or returns the error of writing it, whatever the outcome was.
    pub(crate) fn named(&self, result: Result<RunReport, RunError>) -> Result<RunReport, RunError> {
        let Some(recorder) = &self.recorder else { return result };
        match recorder.failure() {
            Some(failure) => Err(RunError::Record(failure)),
            None => result.map(|mut report| {
                report.session = Some(recorder.session().clone());
                report.record = recorder.path();
                report
            }),
        }
    }

    /// The session's id and the file of its record.
    pub(crate) fn identity(&self) -> (Option<SessionId>, Option<PathBuf>) {
        let recorder = self.recorder.as_ref();
        (recorder.map(|it| it.session().clone()), recorder.and_then(|it| it.path()))
    }

    fn write(
        &self,
        write: impl FnOnce(&Recorder) -> Result<(), Unrecorded>,
    ) -> Result<(), RunError> {
        let Some(recorder) = &self.recorder else { return Ok(()) };
        blocking(|| write(recorder))
            .map_err(|Unrecorded| RunError::Record(recorder.failure_or_closed()))
    }
}

/// The executions that run now.
#[derive(Debug, Default)]
pub(crate) struct RunningNow(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    running: BTreeMap<u64, RunningOne>,
    /// The highest number at the wall so far: the wall counts up.
    latest: Option<u64>,
}

#[derive(Debug, Default)]
struct RunningOne {
    /// Its number at the wall, once it runs there.
    at_wall: Option<ExecutionId>,
    /// The denials of the gate and the tool broker so far.
    denials: Vec<Denial>,
}

impl RunningNow {
    pub(crate) fn add(&self, execution: u64) {
        self.lock().running.insert(execution, RunningOne::default());
    }

    /// Records what the wall calls an execution.
    pub(crate) fn started(&self, execution: u64, at_wall: ExecutionId) {
        let mut table = self.lock();
        table.latest = table.latest.max(Some(at_wall.0));
        if let Some(one) = table.running.get_mut(&execution) {
            one.at_wall = Some(at_wall);
        }
    }

    /// How many programs run.
    pub(crate) fn count(&self) -> usize {
        self.lock().running.len()
    }

    /// Removes an execution and returns its denials.
    pub(crate) fn remove(&self, execution: u64) -> Vec<Denial> {
        self.lock().running.remove(&execution).map(|one| one.denials).unwrap_or_default()
    }

    /// The execution that an event belongs to: the one that the wall names, or else the only one
    /// that runs. An event of one that has ended, or of several, belongs to the session. A program
    /// may cause an event before its start is reported here; its number is then a new one.
    fn owner(&self, at_wall: Option<u64>, denial: Option<&Denial>) -> Option<u64> {
        /// The most distinct denials that are kept for one execution.
        const MOST: usize = 256;
        let mut table = self.lock();
        let is_new = at_wall.is_some() && at_wall > table.latest;
        let is_only = table.running.len() == 1;
        let starting = table.running.values().filter(|one| one.at_wall.is_none()).count();
        let mut all = table.running.iter_mut();
        let (execution, one) = match at_wall.map(ExecutionId) {
            Some(_) if is_new && starting == 1 => all.find(|(_, one)| one.at_wall.is_none())?,
            Some(named) => all.find(|(_, one)| one.at_wall == Some(named))?,
            None if is_only => all.next()?,
            None => return None,
        };
        if let Some(denial) = denial
            && one.denials.len() < MOST
            && !one.denials.contains(denial)
        {
            one.denials.push(denial.clone());
        }
        Some(*execution)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No critical section leaves the table inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the execution to the events of the gate and the tool broker, and keeps their denials.
#[derive(Debug)]
pub(crate) struct OfExecution {
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) running: Arc<RunningNow>,
}

impl Sink for OfExecution {
    fn egress(&self, event: Egress) -> Result<(), Unrecorded> {
        let execution = self.running.owner(event.execution, event.denial.as_ref());
        let Some(recorder) = &self.recorder else { return Ok(()) };
        blocking(|| recorder.egress(Egress { execution, ..event }))
    }

    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded> {
        let execution = self.running.owner(event.execution, event.denial.as_ref());
        let Some(recorder) = &self.recorder else { return Ok(()) };
        blocking(|| recorder.tool_call(ToolCall { execution, ..event }))
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

/// What a record contains of a session's start.
pub(crate) struct Opened<'r> {
    pub(crate) policy: &'r Policy,
    /// The program of a session for one program.
    pub(crate) command: Option<Command>,
    pub(crate) variables: Vec<String>,
    pub(crate) user: u32,
    pub(crate) image: Option<&'r ImageRoot>,
}

impl Opened<'_> {
    fn event(&self) -> SessionStarted {
        let policy = PolicyDigest::of(&*self.policy.name, &self.policy.to_yaml());
        let command = self.command.clone().unwrap_or_else(|| Command::of(&[], None));
        let mut started = SessionStarted::new(VERSION, policy, self.user, command);
        started.variables.clone_from(&self.variables);
        started.image = self.image.map(|image| ImageUsed {
            image: image.reference.clone(),
            dropped_variables: image.dropped_variables.clone(),
        });
        started
    }
}

/// A program as records contain it.
pub(crate) fn command(program: &Program) -> Command {
    match program {
        Program::Command { argv } => Command::of(argv, None),
        Program::Code { language, name, code, arguments } => {
            let code = CodeDigest::of(language.to_string(), name, code);
            Command::of(arguments, Some(code))
        }
    }
}

fn given(execution: u64, verdict: &Verdict) -> VerdictGiven {
    VerdictGiven {
        execution: Some(execution),
        verdict: verdict.effect,
        control: verdict.control.as_str().to_owned(),
        rule: verdict.basis.to_string(),
        target: verdict.target.clone(),
        why: verdict.why.clone(),
        denial: verdict.denial(),
    }
}

fn record_limits(
    recorder: &Recorder,
    execution: u64,
    report: &RunReport,
) -> Result<(), Unrecorded> {
    let hit = |limit: Limit, ended| {
        let limit = limit.spec().key.to_owned();
        recorder.record(Body::LimitHit(LimitHit { execution: Some(execution), limit, ended }))
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
            let denied = Denied { execution: Some(execution), denial: denial.clone() };
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
        Control::Secrets,
        Control::Limit(Limit::Connections),
    ];
    controls.iter().any(|control| denial.control == control.as_str())
}

fn ended(execution: u64, result: Result<&RunReport, &RunError>) -> ExecutionEnded {
    let mut ended = ExecutionEnded {
        execution,
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
