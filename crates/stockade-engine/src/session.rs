//! A sandbox that lives longer than one program.
//!
//! ```text
//! Engine::open ──▶ open ── execute, many at once ──▶ open ── end, or dropped ──▶ ended
//!                    ├── restore ──▶ open, in another sandbox with the files of a checkpoint
//!                    ├── the sandbox is gone ──▶ lost: every further execution is engine_lost
//!                    └── the record cannot be written ──▶ every further execution is refused
//! ```
//! The gate, the tool broker and the record live as long as the session. Dropping it kills
//! everything inside.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use stockade_policy::{Context, Limit, Policy, Verdict};
use stockade_provider::{
    EntryProgram, Execution, ExecutionControl, Files, Plan, Program, Provider, Sandbox,
    SandboxRequest, SandboxUsage, Stdio,
};
use stockade_record::SessionId;
use stockade_store::{Checkpoint, Store};
use tokio::sync::{oneshot, watch};

use crate::contexts::Contexts;
use crate::execute::{self, Clocks, clock};
use crate::files::RecordedFiles;
use crate::ports::ForwardedPorts;
use crate::record::{Record, RunningNow, command};
use crate::services::Services;
use crate::stopping::{Asked, Stopping};
use crate::wait::Held;
use crate::{Audit, Kept, Outcome, RunError, RunReport, Streams, environment, gate};

/// One program of a session, as a front end requests it.
#[derive(Clone, Debug)]
pub struct ExecutionRequest {
    /// What to start.
    pub program: Program,
    /// The caller's variables, in addition to those of the session and of the policy.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the caller passes them to
    /// this program knowingly.
    pub credentials: Vec<String>,
    /// Where it starts, an absolute path inside; `None` is the workspace.
    pub working_directory: Option<String>,
    /// How long it may run, if that is less than the policy allows.
    pub timeout: Option<Duration>,
    /// The kind of its standard streams.
    pub stdio: Stdio,
    /// The context of rules for this program; `None` is that of the session.
    pub context: Option<Context>,
}

impl ExecutionRequest {
    /// A program with pipes, in the workspace, with the time limit of the policy.
    pub fn new(program: Program) -> ExecutionRequest {
        ExecutionRequest {
            program,
            environment: Vec::new(),
            credentials: Vec::new(),
            working_directory: None,
            timeout: None,
            stdio: Stdio::Pipes,
            context: None,
        }
    }
}

/// A program that a session has started.
pub struct StartedExecution {
    /// Its number in the session, as records name it.
    pub execution: u64,
    /// Controls it while it runs.
    pub control: Arc<dyn ExecutionControl>,
}

/// An open sandbox with everything that its programs share.
pub struct Session {
    /// The sandbox; restoring a checkpoint replaces it.
    pub(crate) sandbox: RwLock<Arc<Box<dyn Sandbox>>>,
    /// Counts replacements of the sandbox.
    pub(crate) replaced: watch::Sender<u64>,
    /// Held for reading while a program starts or files change, and for writing while a checkpoint
    /// is made or restored.
    pub(crate) change_lock: Arc<tokio::sync::RwLock<()>>,
    /// Whether the programs are paused.
    pub(crate) is_paused: AtomicBool,
    /// When the sandbox was built from its base, in milliseconds since 1970.
    pub(crate) started_ms: AtomicU64,
    /// The processor time of replaced sandboxes.
    pub(crate) spent: Mutex<Duration>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) wanted: SandboxRequest,
    pub(crate) services: Services,
    pub(crate) policy: Arc<Policy>,
    pub(crate) context: Context,
    /// The variables of the session.
    pub(crate) environment: Vec<(String, String)>,
    /// Which of them may look like credentials.
    pub(crate) credentials: Vec<String>,
    pub(crate) plan: Plan,
    pub(crate) record: Record,
    pub(crate) running: Arc<RunningNow>,
    pub(crate) executions: AtomicU64,
    pub(crate) opened: Instant,
    pub(crate) contexts: Contexts,
    pub(crate) forwarded: ForwardedPorts,
}

impl Session {
    /// Runs one program, concurrently with others, and returns its report. When `cancel` resolves,
    /// the program and its descendants are killed; the session and its files remain.
    pub async fn execute(
        &self,
        request: ExecutionRequest,
        streams: Streams,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<RunReport, RunError> {
        self.execute_with(request, streams, cancel, None).await
    }

    /// Like [`Session::execute`]; sends the program's control once it has started.
    pub async fn execute_with(
        &self,
        request: ExecutionRequest,
        streams: Streams,
        cancel: impl Future<Output = ()> + Send,
        started: Option<oneshot::Sender<StartedExecution>>,
    ) -> Result<RunReport, RunError> {
        let asked = Instant::now();
        let execution = self.executions.fetch_add(1, Ordering::Relaxed);
        let context = request.context.as_ref().unwrap_or(&self.context);
        let verdict = gate::judge(&self.policy, &request.program, context);
        self.record.verdict(execution, &verdict)?;
        if let Some(denial) = verdict.denial() {
            return Ok(RunReport::unstarted(Outcome::Denied { denial }, None));
        }
        let command = command(&request.program);
        let variables = environment::names(&request.environment);
        self.record.execution_started(execution, &self.plan, Some(command), variables)?;
        // A program whose record cannot be written is stopped.
        let mut stop = pin!(Stopping::new(cancel.into(), &self.record));
        let before = self.services.limits_hit();
        let result = async {
            let (sandbox, running) = {
                let _held = self.change_lock.read().await;
                let _start = self.contexts.alone.read().await;
                self.running.add(execution);
                let sandbox = self.sandbox();
                let running = self.start(sandbox.as_ref().as_ref(), &request).await?;
                if let Ok(running) = &running {
                    self.running.started(execution, running.id);
                }
                (sandbox, running)
            };
            if let (Ok(running), Some(started)) = (&running, started) {
                // The caller may have dropped the receiver.
                let control = Arc::clone(&running.control);
                let _ = started.send(StartedExecution { execution, control });
            }
            let held = Held::Session(sandbox.as_ref().as_ref());
            let (services, policy) = (&self.services, &*self.policy);
            let clocks = self.clocks(asked, request.timeout);
            execute::execute(held, running, services, policy, streams, stop.as_mut(), clocks).await
        };
        let mut result = result.await;
        let denials = self.running.remove(execution);
        if let Ok(report) = &mut result {
            report.denials.extend(denials);
            report.limits_hit.extend(self.services.limits_hit().difference(&before));
            report.audits.extend(Audit::of(&verdict));
            report.plan = Some(self.plan.clone());
        }
        self.record.execution_ended(execution, &result)?;
        self.record.named(result)
    }

    /// Runs the only program of a session and ends it. The verdict is recorded already.
    pub(crate) async fn execute_once(
        self,
        request: ExecutionRequest,
        verdict: &Verdict,
        streams: Streams,
        cancel: std::pin::Pin<&mut impl Future<Output = Asked>>,
        asked: Instant,
    ) -> Result<RunReport, RunError> {
        let execution = self.executions.fetch_add(1, Ordering::Relaxed);
        // Before the start: a program whose start cannot be recorded does not run.
        self.record.execution_started(execution, &self.plan, None, Vec::new())?;
        self.running.add(execution);
        let result = self.execute_and_close(request, streams, cancel, asked).await;
        result.map(|(mut report, services, plan)| {
            report.learned = services.learned();
            report.tool_calls = services.tool_calls();
            report.audits.extend(Audit::of(verdict));
            report.plan = Some(plan);
            report
        })
    }

    /// Runs the only program of a session, keeps what it wrote, and ends the session.
    pub(crate) async fn execute_and_keep(
        self,
        request: ExecutionRequest,
        verdict: &Verdict,
        streams: Streams,
        mut cancel: std::pin::Pin<&mut impl Future<Output = Asked>>,
        (store, kept): (&Store, Kept),
    ) -> Result<(RunReport, Checkpoint), RunError> {
        let execution = self.executions.fetch_add(1, Ordering::Relaxed);
        self.record.execution_started(execution, &self.plan, None, Vec::new())?;
        self.running.add(execution);
        let asked = Instant::now();
        let sandbox = self.sandbox();
        let running = self.start(sandbox.as_ref().as_ref(), &request).await?;
        let held = Held::Session(sandbox.as_ref().as_ref());
        let (services, policy, clocks) = (&self.services, &*self.policy, self.clocks(asked, None));
        let ended =
            execute::execute(held, running, services, policy, streams, cancel.as_mut(), clocks);
        let mut report = ended.await?;
        report.denials.extend(self.running.remove(execution));
        drop(sandbox);
        let checkpoint = self.checkpoint(store, kept).await?;
        report.learned = self.services.learned();
        report.tool_calls = self.services.tool_calls();
        report.audits.extend(Audit::of(verdict));
        report.plan = Some(self.plan.clone());
        let mut observed = self.observe().await;
        self.services.close(&mut observed).await;
        report.limits_hit.extend(observed.limits_hit);
        let sandbox = self.sandbox.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Ok(sandbox) = Arc::try_unwrap(sandbox) {
            sandbox.end().await?;
        }
        Ok((report, checkpoint))
    }

    async fn execute_and_close(
        self,
        request: ExecutionRequest,
        streams: Streams,
        mut cancel: std::pin::Pin<&mut impl Future<Output = Asked>>,
        asked: Instant,
    ) -> Result<(RunReport, Services, Plan), RunError> {
        let sandbox = self.sandbox();
        let running = tokio::select! {
            biased;
            _ = &mut cancel => {
                let report = RunReport::unstarted(Outcome::Cancelled, None);
                return Ok((report, self.services, self.plan));
            }
            running = self.start(sandbox.as_ref().as_ref(), &request) => running?,
        };
        drop(sandbox);
        let clocks = self.clocks(asked, None);
        let sandbox = self.sandbox.into_inner().unwrap_or_else(PoisonError::into_inner);
        let sandbox = Arc::try_unwrap(sandbox).ok().expect("a run uses its sandbox only here");
        let Session { services, policy, plan, .. } = self;
        let held = Held::Once(sandbox);
        let report =
            execute::execute(held, running, &services, &policy, streams, cancel, clocks).await?;
        Ok((report, services, plan))
    }

    /// Replaces the value of a secret: the next request carries the new one. Programs keep their
    /// placeholder, and the old value is still redacted.
    pub fn set_secret(&self, name: &str, value: String) -> Result<(), RunError> {
        self.services.secrets().set(name, value)?;
        self.record.secret_replaced(name)
    }

    /// Starts a program. The inner error is the wall's.
    pub(crate) async fn start(
        &self,
        sandbox: &dyn Sandbox,
        request: &ExecutionRequest,
    ) -> Result<Result<stockade_provider::Running, stockade_provider::Error>, RunError> {
        let own = self
            .environment
            .iter()
            .filter(|(name, _)| !request.environment.iter().any(|(replaced, _)| replaced == name));
        let added = own.chain(&request.environment).cloned().collect();
        let execution = Execution {
            program: request.program.clone(),
            environment: environment::merged(
                &self.policy,
                &self.services.secrets().placeholders(),
                added,
                &[&self.credentials[..], &request.credentials].concat(),
            )?,
            working_directory: request.working_directory.clone(),
            // The engine's own deadline ends the program.
            timeout: None,
            stdio: request.stdio,
        };
        match tokio::time::timeout(MOST_START, sandbox.start(execution)).await {
            Ok(running) => Ok(running),
            Err(_) => Err(RunError::StartTooLong { limit: MOST_START }),
        }
    }

    fn clocks(&self, asked: Instant, timeout: Option<Duration>) -> Clocks {
        let most = clock(&self.policy, Limit::Timeout);
        let lifetime = clock(&self.policy, Limit::Lifetime);
        Clocks {
            asked,
            timeout: timeout.map_or(most, |timeout| timeout.min(most)),
            lifetime: lifetime.saturating_sub(self.opened.elapsed()),
            cancel_grace: clock(&self.policy, Limit::CancelGrace),
            timeout_grace: clock(&self.policy, Limit::TimeoutGrace),
        }
    }

    /// The files inside. Every operation is an event of the record. A wall without operations on
    /// files refuses by name.
    pub fn files(&self) -> Result<Arc<dyn Files>, RunError> {
        let files = self.sandbox().files()?;
        let (record, change_lock) = (self.record.clone(), Arc::clone(&self.change_lock));
        Ok(Arc::new(RecordedFiles { files, record, change_lock }))
    }

    /// The context of rules, as it was when the session opened.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What is allowed.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The wall, with every control that it enforces.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The session's id and the file of its record, if one is kept.
    pub fn identity(&self) -> (Option<SessionId>, Option<PathBuf>) {
        self.record.identity()
    }

    /// What the whole sandbox used so far.
    pub async fn usage(&self) -> SandboxUsage {
        self.observe().await
    }

    /// Resolves when the sandbox must end: it is gone, its record cannot be written, or a limit
    /// that the kernel does not enforce is exceeded, which is then returned.
    pub async fn over(&self) -> Option<Limit> {
        let mut replaced = self.replaced.subscribe();
        loop {
            let before = *replaced.borrow_and_update();
            let sandbox = self.sandbox();
            let over = tokio::select! {
                biased;
                _ = replaced.changed() => continue,
                limit = sandbox.exceeded() => Some(limit),
                limit = self.services.exceeded() => Some(limit),
                () = sandbox.lost() => None,
                () = self.record.failed() => None,
            };
            if *replaced.borrow() == before {
                return over;
            }
        }
    }

    /// Stops all programs until [`Session::resume`]. Their time limits go on.
    pub async fn pause(&self) -> Result<(), RunError> {
        // A context that starts stops and continues programs too.
        let _starting = self.contexts.starting.lock().await;
        self.sandbox().pause().await?;
        self.is_paused.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Continues all programs.
    pub async fn resume(&self) -> Result<(), RunError> {
        let _starting = self.contexts.starting.lock().await;
        self.sandbox().resume().await?;
        self.is_paused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Kills everything inside. Returns when the kill is sent.
    pub async fn kill(&self) {
        self.sandbox().kill().await;
    }

    /// Ends everything inside, waits until nothing of it is left on the host, and completes the
    /// record with the reason of the end as one word.
    pub async fn end(self, reason: &str) -> Result<(), RunError> {
        self.forwarded.close_all().await;
        let mut observed = self.observe().await;
        let _ = self.services.decided(self.sandbox().decided().await);
        self.services.close(&mut observed).await;
        let sandbox = self.sandbox.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = match Arc::try_unwrap(sandbox) {
            Ok(sandbox) => sandbox.end().await,
            // Dropping the last use ends it.
            Err(_) => Ok(()),
        };
        // Their ends are recorded before the last event.
        self.contexts.close().await;
        self.record.end(reason)?;
        Ok(ended?)
    }

    /// The current sandbox.
    pub(crate) fn sandbox(&self) -> Arc<Box<dyn Sandbox>> {
        Arc::clone(&self.sandbox.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn observe(&self) -> SandboxUsage {
        let mut used = self.sandbox().observe().await;
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        used.cpu_time = used.cpu_time.map(|time| time + spent);
        used
    }
}

/// How long the guest may take to accept a program. Only a hang takes longer.
const MOST_START: Duration = Duration::from_secs(30);

/// The program for which a wall makes interpreters available.
pub fn entry(program: &Program) -> EntryProgram {
    match program {
        Program::Code { language, .. } => EntryProgram::Interpreter(*language),
        Program::Command { argv } => {
            EntryProgram::Program(argv.first().cloned().unwrap_or_default())
        }
    }
}
