//! A sandbox that lives longer than one program.
//!
//! ```text
//! Engine::open ──▶ open ── execute, many at once ──▶ open ── end, or dropped ──▶ ended
//!                    ├── the sandbox is gone ──▶ lost: every further execution is engine_lost
//!                    └── the record cannot be written ──▶ every further execution is refused
//! ```
//! The gate, the tool broker and the record live as long as the session. Dropping it kills
//! everything inside.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stockade_policy::{Context, Limit, Policy, Verdict};
use stockade_provider::{
    Entry, Execution, ExecutionControl, Files, Plan, Program, Sandbox, SandboxUsage, Stdio,
};
use stockade_record::SessionId;
use tokio::sync::oneshot;

use crate::execute::{self, Clocks, clock};
use crate::files::RecordedFiles;
use crate::record::{Record, RunningNow, command};
use crate::services::Services;
use crate::stopping::{Asked, Stopping};
use crate::wait::Held;
use crate::{Audit, Outcome, RunError, RunReport, Streams, environment, gate};

/// One program of a session, as a front end requests it.
#[derive(Clone, Debug)]
pub struct ExecutionRequest {
    /// What to start.
    pub program: Program,
    /// The caller's variables, in addition to those of the session and of the policy.
    pub environment: Vec<(String, String)>,
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
            working_directory: None,
            timeout: None,
            stdio: Stdio::Pipes,
            context: None,
        }
    }
}

/// A program that a session has started.
pub struct Started {
    /// Its number in the session, as records name it.
    pub execution: u64,
    /// Controls it while it runs.
    pub control: Arc<dyn ExecutionControl>,
}

/// An open sandbox with everything that its programs share.
pub struct Session {
    pub(crate) sandbox: Box<dyn Sandbox>,
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
        started: Option<oneshot::Sender<Started>>,
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
        self.record.execution_started(execution, &self.plan, Some(command))?;
        // A program whose record cannot be written is stopped.
        let mut stop = pin!(Stopping::new(cancel, &self.record));
        self.running.add(execution);
        let before = self.services.limits_hit();
        let result = async {
            let running = self.start(&request).await?;
            if let (Ok(running), Some(started)) = (&running, started) {
                // The caller may have dropped the receiver.
                let control = Arc::clone(&running.control);
                let _ = started.send(Started { execution, control });
            }
            let held = Held::Session(self.sandbox.as_ref());
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
        self.record.execution_started(execution, &self.plan, None)?;
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

    async fn execute_and_close(
        self,
        request: ExecutionRequest,
        streams: Streams,
        mut cancel: std::pin::Pin<&mut impl Future<Output = Asked>>,
        asked: Instant,
    ) -> Result<(RunReport, Services, Plan), RunError> {
        let running = tokio::select! {
            biased;
            _ = &mut cancel => {
                let report = RunReport::unstarted(Outcome::Cancelled, None);
                return Ok((report, self.services, self.plan));
            }
            running = self.start(&request) => running?,
        };
        let clocks = self.clocks(asked, None);
        let Session { sandbox, services, policy, plan, .. } = self;
        let held = Held::Once(sandbox);
        let report =
            execute::execute(held, running, &services, &policy, streams, cancel, clocks).await?;
        Ok((report, services, plan))
    }

    /// Starts a program. The inner error is the wall's.
    async fn start(
        &self,
        request: &ExecutionRequest,
    ) -> Result<Result<stockade_provider::Running, stockade_provider::Error>, RunError> {
        let own = self
            .environment
            .iter()
            .filter(|(name, _)| !request.environment.iter().any(|(replaced, _)| replaced == name));
        let added = own.chain(&request.environment).cloned().collect();
        let execution = Execution {
            program: request.program.clone(),
            environment: environment::merged(&self.policy, added, &self.credentials)?,
            working_directory: request.working_directory.clone(),
            // The engine's own deadline ends the program.
            timeout: None,
            stdio: request.stdio,
        };
        match tokio::time::timeout(MOST_START, self.sandbox.start(execution)).await {
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
        let files = self.sandbox.files()?;
        Ok(Arc::new(RecordedFiles { files, record: self.record.clone() }))
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
        self.sandbox.observe().await
    }

    /// Resolves when the sandbox must end: it is gone, its record cannot be written, or a limit
    /// that the kernel does not enforce is exceeded, which is then returned.
    pub async fn over(&self) -> Option<Limit> {
        tokio::select! {
            limit = self.sandbox.exceeded() => Some(limit),
            limit = self.services.exceeded() => Some(limit),
            () = self.sandbox.lost() => None,
            () = self.record.failed() => None,
        }
    }

    /// Stops all programs until [`Session::resume`]. Their time limits go on.
    pub async fn pause(&self) -> Result<(), RunError> {
        Ok(self.sandbox.pause().await?)
    }

    /// Continues all programs.
    pub async fn resume(&self) -> Result<(), RunError> {
        Ok(self.sandbox.resume().await?)
    }

    /// Kills everything inside. Returns when the kill is sent.
    pub async fn kill(&self) {
        self.sandbox.kill().await;
    }

    /// Ends everything inside, waits until nothing of it is left on the host, and completes the
    /// record with the reason of the end as one word.
    pub async fn end(self, reason: &str) -> Result<(), RunError> {
        let mut observed = self.sandbox.observe().await;
        self.services.close(&mut observed).await;
        let ended = self.sandbox.end().await;
        self.record.end(reason)?;
        Ok(ended?)
    }
}

/// How long the guest may take to accept a program. Only a hang takes longer.
const MOST_START: Duration = Duration::from_secs(30);

/// The program for which a wall makes interpreters available.
pub(crate) fn entry(program: &Program) -> Entry {
    match program {
        Program::Code { language, .. } => Entry::Interpreter(*language),
        Program::Command { argv } => Entry::Program(argv.first().cloned().unwrap_or_default()),
    }
}
