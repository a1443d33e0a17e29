//! One execution, start to finish.
//!
//! ```text
//! asked ── denied by a rule ──────────────────────────────► denied
//!   │ judged
//!   ├── no wall holds the policy ─────────────────────────► error
//!   │ chosen
//!   ├── the host does not let the wall be built ── chosen again, of the walls that are left
//!   │ handed over, and recorded before
//!   ├── the wall cannot be built, or not in 30 s ─────────► error
//!   ├── cancelled ────────────────────────────────────────► cancelled
//!   │ started, when the wall stands
//!   ├── deadline, limit, cancel ── kill ── collect 100 ms ► timed_out, limit_exceeded, cancelled
//!   └── ended ── output read ── sandbox dropped ── output passed on ──► by what the kernel said
//! ```
//! Whatever the way, the sandbox is dropped before anybody else is waited for, which kills what is
//! left inside.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stockade_provider::{
    Entry, Error, ErrorKind, Execution, Expected, First, Plan, Program, Provider, SandboxRequest,
    Started,
};
use tokio::time::sleep;

use crate::record::{self, Record};
use crate::way_out::WayOut;
use crate::{
    Audit, Outcome, RunError, RunReport, RunRequest, Streams, choose, environment, execute, gate,
};

/// How long a wall may take to build a sandbox. A thousand times what it needs: only something that
/// hangs, such as a file system whose server is gone, takes longer.
const MOST_START: Duration = Duration::from_secs(30);

/// Runs programs behind the walls it was given.
pub struct Engine {
    providers: Vec<Arc<dyn Provider>>,
}

impl Engine {
    /// An engine over walls, the one to try first at the front.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Engine {
        Engine { providers }
    }

    /// Lets the wall that is tried first begin what depends on no policy.
    pub fn prepare(&self, expected: Expected) {
        if let Some(provider) = self.providers.first() {
            provider.prepare(expected);
        }
    }

    /// Runs one program. When `cancel` resolves, everything inside is killed.
    pub async fn run(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<RunReport, RunError> {
        let record = Record::of(request.recorder.clone());
        // Whatever cannot be recorded does not go on.
        let stop = async {
            tokio::select! {
                () = cancel => {}
                () = record.failed() => {}
            }
        };
        let result = self.recorded(request, streams, stop, &record).await;
        record.end(result)
    }
}

impl Engine {
    async fn recorded(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Future<Output = ()> + Send,
        record: &Record,
    ) -> Result<RunReport, RunError> {
        let asked = Instant::now();
        let RunRequest { policy, program, surroundings, environment, .. } = request;
        let verdict = gate::judge(&policy, &program, &request.context);
        let told = record::Asked {
            policy: &policy,
            program: &program,
            variables: environment.iter().map(|(name, _)| name.clone()).collect(),
            user: surroundings.user,
            verdict: &verdict,
        };
        if let Some(denial) = verdict.denial() {
            record.begin(&told)?;
            return Ok(RunReport::unstarted(Outcome::Denied { denial }, None));
        }
        let environment = match environment::merged(&policy, environment) {
            Ok(environment) => environment,
            Err(error) => {
                record.begin(&told)?;
                return Err(error);
            }
        };
        let recorder = request.recorder.as_ref();
        let (tools, context) = (request.tools, &request.context);
        let way_out = match WayOut::of(&policy, request.passage, tools, context, recorder) {
            Ok(way_out) => way_out,
            Err(error) => {
                record.begin(&told)?;
                return Err(error.into());
            }
        };
        let wanted = SandboxRequest {
            policy: Arc::clone(&policy),
            root: request.root,
            entry: entry(&program),
            surroundings,
            protected: request.protected,
            gateway: way_out.gateway(),
            tools: way_out.door(),
        };
        let mut cancel = pin!(cancel);
        let asked_for = request.provider.as_deref();
        let execution = Execution { program: program.clone(), environment };
        let recording = Recording { record, told: &told };
        let created = tokio::select! {
            biased;
            () = &mut cancel => None,
            created = self.create(asked_for, &wanted, &execution, recording) => match created {
                Ok(created) => Some(created),
                Err(error) => {
                    record.begin(&told)?;
                    return Err(error);
                }
            },
            // Whatever was begun ends with the future that is dropped here.
            () = sleep(MOST_START) => {
                record.begin(&told)?;
                return Err(RunError::StartTooLong { limit: MOST_START });
            }
        };
        let Some((started, plan)) = created else {
            record.begin(&told)?;
            return Ok(RunReport::unstarted(Outcome::Cancelled, None));
        };
        let mut report =
            execute::execute(started, &way_out, &policy, streams, cancel, asked).await?;
        report.learned = way_out.learned();
        report.tool_calls = way_out.tool_calls();
        report.audits.extend(Audit::of(&verdict));
        report.plan = Some(plan);
        Ok(report)
    }
}

impl Engine {
    /// Starts a program behind the first wall that holds the policy and that the host lets be
    /// built. No wall is below the policy's floor. What is said in the end is why the first could
    /// not be built. Whatever cannot be recorded is not started.
    async fn create(
        &self,
        asked: Option<&str>,
        wanted: &SandboxRequest,
        execution: &Execution,
        recording: Recording<'_>,
    ) -> Result<(Started, Plan), RunError> {
        let mut passed_over = Vec::new();
        let mut first_error = None;
        loop {
            let chosen = choose::choose(&self.providers, asked, &wanted.policy, &passed_over);
            let (provider, plan) = match (chosen, first_error) {
                (Ok(chosen), error) => {
                    first_error = error;
                    chosen
                }
                (Err(_), Some(error)) => return Err(error),
                (Err(error), None) => return Err(error),
            };
            for other in self.providers.iter().filter(|other| other.name() != provider.name()) {
                other.let_go();
            }
            let unrecorded = Mutex::new(None);
            let admit = || {
                recording.begin(&plan).map_err(|error| {
                    let told = Error::new(ErrorKind::Internal, "it cannot be recorded");
                    *unrecorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    told
                })
            };
            let first = First { execution: execution.clone(), admit: &admit };
            let error = match provider.create_with(wanted, first).await {
                Ok(started) => return Ok((started, plan)),
                Err(error) => error,
            };
            if let Some(error) = unrecorded.into_inner().unwrap_or_else(PoisonError::into_inner) {
                return Err(error);
            }
            let (kind, error) = (error.kind(), error.into());
            recording.record.execution_failed(&error)?;
            let error = first_error.unwrap_or(error);
            match kind {
                ErrorKind::Unavailable => passed_over.push(provider.name()),
                _ => return Err(error),
            }
            first_error = Some(error);
        }
    }
}

/// What a wall that is being built tells the record.
#[derive(Clone, Copy)]
struct Recording<'r> {
    record: &'r Record,
    told: &'r record::Asked<'r>,
}

impl Recording<'_> {
    /// A program is about to be handed over.
    fn begin(&self, plan: &Plan) -> Result<(), RunError> {
        self.record.begin(self.told)?;
        self.record.execution_started(plan)
    }
}

fn entry(program: &Program) -> Entry {
    match program {
        Program::Code { language, .. } => Entry::Interpreter(*language),
        Program::Command { argv } => Entry::Program(argv.first().cloned().unwrap_or_default()),
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
