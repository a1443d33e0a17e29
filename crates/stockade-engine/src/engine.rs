//! One execution, start to finish.
//!
//! ```text
//! requested ── denied by a rule ──────────────────────────► denied
//!   │ judged
//!   ├── no wall enforces the policy ──────────────────────► error
//!   │ chosen
//!   ├── the host cannot build the wall ── choose again from the remaining walls
//!   ├── the wall cannot be built, or not in 30 s ─────────► error
//!   ├── cancelled ────────────────────────────────────────► cancelled
//!   │ built, recorded, started
//!   ├── deadline, limit, cancel ── kill ── collect 100 ms ► timed_out, limit_exceeded, cancelled
//!   └── ended ── output read ── sandbox dropped ── output relayed ──► outcome from the kernel
//! ```
//! In every case the engine drops the sandbox, which kills all processes in it, before it waits for
//! a reader of the output.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_provider::{
    Entry, ErrorKind, Execution, Plan, Program, Provider, Sandbox, SandboxRequest,
};
use tokio::time::{sleep, timeout};

use crate::record::{self, Record};
use crate::way_out::WayOut;
use crate::{
    Audit, Outcome, RunError, RunReport, RunRequest, Streams, choose, environment, execute, gate,
};

/// How long a wall may take to build a sandbox. It is a thousand times the usual time: only a hang,
/// such as a file system whose server is gone, takes longer.
const MOST_START: Duration = Duration::from_secs(30);

/// How long a cancelled start may take to release what it has allocated.
const MOST_RELEASE: Duration = Duration::from_secs(2);

/// Runs programs behind the given walls.
pub struct Engine {
    providers: Vec<Arc<dyn Provider>>,
}

impl Engine {
    /// An engine over walls, in the order in which it tries them.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Engine {
        Engine { providers }
    }

    /// Runs one program. When `cancel` resolves, everything inside is killed.
    pub async fn run(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<RunReport, RunError> {
        let record = Record::of(request.recorder.clone());
        // A run whose record cannot be written is stopped.
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
        let RunRequest { policy, program, environment, .. } = request;
        let verdict = gate::judge(&policy, &program, &request.context);
        let told = record::Asked {
            policy: &policy,
            program: &program,
            variables: environment.iter().map(|(name, _)| name.clone()).collect(),
            user: request.user,
            verdict: &verdict,
        };
        record.begin(&told)?;
        if let Some(denial) = verdict.denial() {
            return Ok(RunReport::unstarted(Outcome::Denied { denial }, None));
        }
        let environment = environment::merged(&policy, environment)?;
        let recorder = request.recorder.as_ref();
        let (tools, context) = (request.tools, &request.context);
        let way_out = WayOut::of(&policy, request.passage, tools, context, recorder)?;
        let wanted = SandboxRequest {
            policy: Arc::clone(&policy),
            root: request.root,
            entry: entry(&program),
            protected: request.protected,
            gateway: way_out.gateway(),
            tools: way_out.tool_access(),
        };
        let mut cancel = pin!(cancel);
        let asked_for = request.provider.as_deref();
        let too_long = || RunError::StartTooLong { limit: MOST_START };
        let cancelled = || Ok(RunReport::unstarted(Outcome::Cancelled, None));
        let mut creating = pin!(self.create(asked_for, &wanted, &program));
        let (sandbox, plan) = tokio::select! {
            biased;
            () = &mut cancel => {
                // Releases partly allocated resources before the caller may exit.
                let _ = timeout(MOST_RELEASE, creating).await;
                return cancelled();
            }
            created = &mut creating => created?,
            () = sleep(MOST_START) => return Err(too_long()),
        };
        // Before the start: a program whose start cannot be recorded does not run.
        record.execution_started(&plan)?;
        // Without a timeout: the engine's own deadline ends the sandbox and its only execution.
        let execution = Execution { environment, ..Execution::new(program.clone()) };
        let running = tokio::select! {
            biased;
            () = &mut cancel => return cancelled(),
            running = sandbox.start(execution) => running,
            () = sleep(MOST_START) => return Err(too_long()),
        };
        let mut report =
            execute::execute(sandbox, running, &way_out, &policy, streams, cancel, asked).await?;
        report.learned = way_out.learned();
        report.tool_calls = way_out.tool_calls();
        report.audits.extend(Audit::of(&verdict));
        report.plan = Some(plan);
        Ok(report)
    }
}

impl Engine {
    /// Builds a sandbox behind the first wall, never below the floor, that enforces the policy and
    /// that the host can build. If every wall fails, returns the first wall's error.
    async fn create(
        &self,
        asked: Option<&str>,
        wanted: &SandboxRequest,
        program: &Program,
    ) -> Result<(Box<dyn Sandbox>, Plan), RunError> {
        let mut passed_over = Vec::new();
        let mut first_error = None;
        loop {
            let policy = &wanted.policy;
            let chosen = choose::choose(&self.providers, asked, policy, program, &passed_over);
            let (provider, plan) = match chosen.await {
                Ok(chosen) => chosen,
                Err(error) => return Err(first_error.unwrap_or(error)),
            };
            let error = match provider.create(wanted).await {
                Ok(sandbox) => return Ok((sandbox, plan)),
                Err(error) => error,
            };
            let kind = error.kind();
            let error = first_error.unwrap_or_else(|| error.into());
            if kind != ErrorKind::Unavailable {
                return Err(error);
            }
            passed_over.push(provider.name());
            first_error = Some(error);
        }
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
