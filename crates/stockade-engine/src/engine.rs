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

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stockade_provider::{Entry, ErrorKind, Plan, Program, Provider, Root, Sandbox, SandboxRequest};
use tokio::time::{sleep, timeout};

use crate::record::{self, OfExecution, Opened, Record, RunningNow};
use crate::services::Services;
use crate::session::{ExecutionRequest, Session, entry};
use crate::stopping::{Asked, Stopping};
use crate::{
    Outcome, RunError, RunReport, RunRequest, SessionRequest, Streams, choose, environment, gate,
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

    /// Runs one program in a sandbox of its own: opens a session, executes, and ends it. When
    /// `cancel` resolves, everything inside is killed.
    pub async fn run(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<RunReport, RunError> {
        let RunRequest { session, program, working_directory } = request;
        let asked = Instant::now();
        let record = Record::of(session.recorder.clone());
        let mut cancel = pin!(Stopping::new(cancel, &record));
        let started = AtomicBool::new(false);
        let result = async {
            let verdict = gate::judge(&session.policy, &program, &session.context);
            record.begin(&opened(&session, Some(record::command(&program))))?;
            record.verdict(FIRST, &verdict)?;
            // Before a wall is built for it.
            if let Some(denial) = verdict.denial() {
                return Ok(RunReport::unstarted(Outcome::Denied { denial }, None));
            }
            let entry = entry(&program);
            let session = match self.build(session, entry, Some(&program), cancel.as_mut()).await? {
                Some(session) => session,
                None => return Ok(RunReport::unstarted(Outcome::Cancelled, None)),
            };
            started.store(true, Ordering::Relaxed);
            let request = ExecutionRequest { working_directory, ..ExecutionRequest::new(program) };
            session.execute_once(request, &verdict, streams, cancel.as_mut(), asked).await
        };
        let result = result.await;
        // The recorder keeps a failure, which `named` returns.
        if started.load(Ordering::Relaxed) {
            let _ = record.execution_ended(FIRST, &result);
        }
        let _ = record.end(result.as_ref().map_or("error", |report| report.outcome.as_str()));
        record.named(result)
    }

    /// Opens a session for many programs. When `cancel` resolves first, returns `None`.
    pub async fn open(
        &self,
        request: SessionRequest,
        entry: Entry,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Option<Session>, RunError> {
        let record = Record::of(request.recorder.clone());
        let cancel = pin!(Stopping::new(cancel, &record));
        let result = async {
            record.begin(&opened(&request, None))?;
            self.build(request, entry, None, cancel).await
        };
        let result = result.await;
        match &result {
            Ok(Some(_)) => {}
            Ok(None) => record.end(Outcome::Cancelled.as_str())?,
            Err(_) => _ = record.end("error"),
        }
        result
    }
}

/// The number of the only execution of a run.
const FIRST: u64 = 0;

fn opened(session: &SessionRequest, command: Option<stockade_record::Command>) -> Opened<'_> {
    let variables = session.environment.iter().map(|(name, _)| name.clone()).collect();
    let image = match &session.root {
        Root::Image(image) => Some(image),
        Root::Standard | Root::Directory(_) => None,
    };
    Opened { policy: &session.policy, command, variables, user: session.user, image }
}

impl Engine {
    /// Builds the sandbox of a session. Returns `None` if the caller cancels.
    async fn build(
        &self,
        request: SessionRequest,
        entry: Entry,
        program: Option<&Program>,
        mut cancel: Pin<&mut impl Future<Output = Asked>>,
    ) -> Result<Option<Session>, RunError> {
        let SessionRequest { policy, context, environment, credentials, .. } = request;
        // Finds bad variables before a wall is built.
        environment::merged(&policy, environment.clone(), &credentials)?;
        let running = Arc::new(RunningNow::default());
        let recorder = request.recorder.clone();
        let sink = OfExecution { recorder, running: Arc::clone(&running) };
        let services = Services::of(&policy, request.passage, request.tools, &context, sink)?;
        let wanted = SandboxRequest {
            policy: Arc::clone(&policy),
            root: request.root,
            entry,
            protected: request.protected,
            gateway: services.gateway(),
            tools: services.tool_access(),
        };
        let mut creating = pin!(self.create(request.provider.as_deref(), &wanted, program));
        let (sandbox, plan) = tokio::select! {
            biased;
            _ = &mut cancel => {
                // Releases partly allocated resources before the caller may exit.
                let _ = timeout(MOST_RELEASE, creating).await;
                return Ok(None);
            }
            created = &mut creating => created?,
            () = sleep(MOST_START) => return Err(RunError::StartTooLong { limit: MOST_START }),
        };
        let record = Record::of(request.recorder);
        let (executions, opened) = (AtomicU64::new(FIRST), Instant::now());
        Ok(Some(Session {
            sandbox,
            services,
            policy,
            context,
            environment,
            credentials,
            plan,
            record,
            running,
            executions,
            opened,
        }))
    }
}

impl Engine {
    /// Builds a sandbox behind the first wall, never below the floor, that enforces the policy and
    /// that the host can build. If every wall fails, returns the first wall's error.
    async fn create(
        &self,
        asked: Option<&str>,
        wanted: &SandboxRequest,
        program: Option<&Program>,
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

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
