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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use stockade_egress::Secrets;
use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, ErrorKind, MOST_START, Plan, Program, Provider, Root, Sandbox, SandboxRequest,
};
use stockade_store::{Checkpoint, Store};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::record::{self, OfExecution, Opened, Record, RunningNow};
use crate::services::Services;
use crate::session::{ExecutionRequest, Session, entry};
use crate::stopping::{Asked, Cancel, Stopping};
use crate::{
    Kept, Outcome, RunError, RunReport, RunRequest, SessionRequest, Streams, choose, environment,
    gate,
};

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
    /// `cancel` resolves, everything inside is killed, after the grace of the policy.
    pub async fn run<'c>(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Into<Cancel<'c>> + Send,
    ) -> Result<RunReport, RunError> {
        Ok(self.run_once(request, streams, cancel, None).await?.0)
    }

    /// The same, and keeps what the program wrote as a checkpoint before the sandbox ends. A
    /// program that never ran leaves none.
    pub async fn run_and_keep<'c>(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Into<Cancel<'c>> + Send,
        store: &Store,
        kept: Kept,
    ) -> Result<(RunReport, Option<Checkpoint>), RunError> {
        self.run_once(request, streams, cancel, Some((store, kept))).await
    }

    async fn run_once<'c>(
        &self,
        request: RunRequest,
        streams: Streams,
        cancel: impl Into<Cancel<'c>> + Send,
        keep: Option<(&Store, Kept)>,
    ) -> Result<(RunReport, Option<Checkpoint>), RunError> {
        let RunRequest { session, program, working_directory } = request;
        let asked = Instant::now();
        let record = Record::of(session.recorder.clone());
        let mut cancel = pin!(Stopping::new(cancel.into(), &record));
        let started = AtomicBool::new(false);
        let mut checkpoint = None;
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
            match keep {
                None => {
                    session.execute_once(request, &verdict, streams, cancel.as_mut(), asked).await
                }
                Some(keep) => {
                    let cancel = cancel.as_mut();
                    let done = session.execute_and_keep(request, &verdict, streams, cancel, keep);
                    let (report, kept) = done.await?;
                    checkpoint = Some(kept);
                    Ok(report)
                }
            }
        };
        let result = result.await;
        // The recorder keeps a failure, which `named` returns.
        if started.load(Ordering::Relaxed) {
            let _ = record.execution_ended(FIRST, &result);
        }
        let _ = record.end(result.as_ref().map_or("error", |report| report.outcome.as_str()));
        Ok((record.named(result)?, checkpoint))
    }

    /// Opens a session for many programs. When `cancel` resolves first, returns `None`.
    pub async fn open(
        &self,
        request: SessionRequest,
        entry: EntryProgram,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Option<Session>, RunError> {
        let record = Record::of(request.recorder.clone());
        let cancel = pin!(Stopping::new(cancel.into(), &record));
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
        entry: EntryProgram,
        program: Option<&Program>,
        mut cancel: Pin<&mut impl Future<Output = Asked>>,
    ) -> Result<Option<Session>, RunError> {
        let SessionRequest { policy, context, environment, credentials, .. } = request;
        // Finds bad variables before a wall is built.
        environment::merged(&policy, &[], environment.clone(), &credentials)?;
        let running = Arc::new(RunningNow::default());
        let recorder = request.recorder.clone();
        let sink = OfExecution { recorder, running: Arc::clone(&running) };
        let secrets = read_secrets(&policy).await?;
        let services =
            Services::of(&policy, request.passage, request.tools, &context, sink, secrets)?;
        let wanted = SandboxRequest {
            policy: Arc::clone(&policy),
            root: request.root,
            entry,
            protected: request.protected,
            gateway: services.gateway(),
            tools: services.tool_access(),
            authorities: services.authorities(),
        };
        let asked = wanted.clone();
        let mut creating = pin!(self.create(request.provider.as_deref(), &asked, program));
        let started_ms = crate::state::now_ms();
        let (sandbox, provider, plan) = tokio::select! {
            biased;
            _ = &mut cancel => {
                // Releases partly allocated resources before the caller may exit.
                let _ = timeout(MOST_RELEASE, creating).await;
                return Ok(None);
            }
            created = &mut creating => created?,
        };
        let record = Record::of(request.recorder);
        let (executions, opened) = (AtomicU64::new(FIRST), Instant::now());
        Ok(Some(Session {
            sandbox: RwLock::new(Arc::new(sandbox)),
            replaced: watch::Sender::new(0),
            change_lock: Arc::default(),
            is_paused: AtomicBool::new(false),
            started_ms: AtomicU64::new(started_ms),
            spent: Mutex::default(),
            provider,
            wanted,
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
            contexts: crate::contexts::Contexts::default(),
            forwarded: crate::ports::ForwardedPorts::default(),
        }))
    }
}

/// Reads the secrets of a policy. A program may print one, so this can take a while.
async fn read_secrets(policy: &Arc<Policy>) -> Result<Secrets, RunError> {
    if policy.secrets.is_empty() {
        return Ok(Secrets::default());
    }
    let policy = Arc::clone(policy);
    let reading = tokio::task::spawn_blocking(move || Secrets::load(&policy));
    match reading.await {
        Ok(read) => Ok(read?),
        Err(stopped) => std::panic::resume_unwind(stopped.into_panic()),
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
    ) -> Result<(Box<dyn Sandbox>, Arc<dyn Provider>, Plan), RunError> {
        let mut passed_over = Vec::new();
        let mut first_error = None;
        loop {
            let policy = &wanted.policy;
            let chosen = choose::choose(&self.providers, asked, policy, program, &passed_over);
            let (provider, mut plan) = match in_time(MOST_START, chosen).await? {
                Ok(chosen) => chosen,
                Err(error) => return Err(first_error.unwrap_or(error)),
            };
            let created = match provider.prepare().await {
                Ok(()) => in_time(provider.most_start(), provider.create(wanted)).await?,
                Err(error) => Err(error),
            };
            let error = match created {
                Ok(sandbox) => {
                    plan.complete(&*sandbox);
                    return Ok((sandbox, provider, plan));
                }
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

/// Waits for a step of a start, but not for one that hangs.
async fn in_time<T>(limit: Duration, step: impl Future<Output = T>) -> Result<T, RunError> {
    timeout(limit, step).await.map_err(|_| RunError::StartTooLong { limit })
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
