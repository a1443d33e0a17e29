//! One running sandbox of the service.
//!
//! ```text
//! ready ── start ──▶ running, one program at a time ── its end ──▶ ready
//!     ├────── kill, drop or end ──────▶ deleted
//!     └── the service has ended it, or an answer is missing ──▶ lost
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_interpreters::ProgramSetup;
use stockade_policy::Limit;
use stockade_provider::{
    DecidedRequest, Error, ErrorKind, Execution, ExecutionId, Files, Gateway, ProcessEnd, Running,
    Sandbox, SandboxUsage, Stdio,
};
use tokio::io::duplex;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::AcaError;
use crate::cleanup::Held;
use crate::client::{SandboxId, Service};
use crate::decisions::Seen;
use crate::execution::{Job, RunControl};
use crate::files::RemoteFiles;
use crate::runner::{Ended, Machine, RunId, RunLimits, Sent, Verb};
use crate::start::{State, ensure_running};
use crate::wire::CreateSandbox;

/// How often the sandbox's state is polled while no other request returns it.
const LOOK: Duration = Duration::from_secs(30);
/// How long the last request for egress decisions may take.
const LAST_LOOK: Duration = Duration::from_secs(5);
/// Bytes between a program's streams and their readers.
const STREAM: usize = 64 << 10;

/// What the sandbox and its programs share.
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) id: SandboxId,
    pub(crate) machine: Machine,
    pub(crate) limits: RunLimits,
    /// System-call filters, encoded.
    pub(crate) filters: Vec<String>,
    pub(crate) is_workspace_writable: bool,
    /// Serves tool calls, if there are tools.
    pub(crate) gateway: Option<Arc<dyn Gateway>>,
    /// Whether a program runs.
    pub(crate) is_busy: AtomicBool,
    /// Becomes true when the sandbox ends.
    pub(crate) killed: watch::Sender<bool>,
    pub(crate) held: Mutex<Option<Held>>,
    seen: tokio::sync::Mutex<Seen>,
    usage: Mutex<SandboxUsage>,
    requests: Mutex<Vec<DecidedRequest>>,
}

/// What a new sandbox is made of.
pub(crate) struct Parts {
    pub(crate) service: Arc<Service>,
    pub(crate) held: Held,
    pub(crate) id: SandboxId,
    pub(crate) machine: Machine,
    pub(crate) limits: RunLimits,
    pub(crate) filters: Vec<String>,
    pub(crate) is_workspace_writable: bool,
    pub(crate) gateway: Option<Arc<dyn Gateway>>,
    pub(crate) setup: ProgramSetup,
    pub(crate) body: CreateSandbox,
}

/// One running sandbox.
pub(crate) struct AcaSandbox {
    shared: Arc<Shared>,
    setup: ProgramSetup,
    body: CreateSandbox,
    is_paused: AtomicBool,
}

impl AcaSandbox {
    pub(crate) fn new(parts: Parts) -> AcaSandbox {
        let shared = Arc::new(Shared {
            service: parts.service,
            id: parts.id,
            machine: parts.machine,
            limits: parts.limits,
            filters: parts.filters,
            is_workspace_writable: parts.is_workspace_writable,
            gateway: parts.gateway,
            is_busy: AtomicBool::new(false),
            killed: watch::Sender::new(false),
            held: Mutex::new(Some(parts.held)),
            seen: tokio::sync::Mutex::default(),
            usage: Mutex::default(),
            requests: Mutex::default(),
        });
        let is_paused = AtomicBool::new(false);
        AcaSandbox { shared, setup: parts.setup, body: parts.body, is_paused }
    }
}

impl Drop for AcaSandbox {
    fn drop(&mut self) {
        // A task of a program may still hold the shared part.
        self.shared.killed.send_replace(true);
        drop(self.shared.take());
    }
}

impl Shared {
    fn take(&self) -> Option<Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Deletes the sandbox, whose state is unknown.
    pub(crate) async fn lose(&self) {
        self.killed.send_replace(true);
        if let Some(held) = self.take() {
            // What fails is repeated when it is dropped.
            let _ = held.delete().await;
        }
    }

    /// Reads the egress decisions that the service made since the last call.
    pub(crate) async fn look_at_decisions(&self) -> Result<(), AcaError> {
        let mut seen = self.seen.lock().await;
        let new = seen.take(self.service.decisions(&self.id).await?);
        drop(seen);
        self.requests().extend(new);
        Ok(())
    }

    /// Counts what a program used.
    pub(crate) fn used(&self, ended: &Ended) {
        let mut usage = self.usage();
        usage.cpu_time = Some(Duration::from_millis(ended.cpu_ms));
        usage.memory_peak_bytes = Some(ended.memory_peak_bytes);
        usage.oom_kills = ended.oom_kills;
    }

    /// What the last program used.
    pub(crate) fn observed(&self) -> SandboxUsage {
        self.usage().clone()
    }

    /// The decided requests that were not reported yet.
    fn requests(&self) -> std::sync::MutexGuard<'_, Vec<DecidedRequest>> {
        // No critical section leaves it inconsistent.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn usage(&self) -> std::sync::MutexGuard<'_, SandboxUsage> {
        // No critical section leaves it inconsistent.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program slot, freed when it is dropped.
struct Slot(Arc<Shared>);

impl Slot {
    fn take(shared: &Arc<Shared>) -> Result<Slot, Error> {
        let was_busy = shared.is_busy.swap(true, Ordering::SeqCst);
        if was_busy {
            let error = Error::new(ErrorKind::Busy, "the managed wall runs one program at a time");
            return Err(error.with_remedy("wait for it, or create another session"));
        }
        Ok(Slot(Arc::clone(shared)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::SeqCst);
    }
}

impl Sandbox for AcaSandbox {
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(async {
            if matches!(execution.stdio, Stdio::Terminal(_)) {
                return Err(AcaError::Unsupported {
                    what: "a terminal".to_owned(),
                    reason: "the service executes commands and has no terminals".to_owned(),
                    remedy: "run the program with pipes, or use another wall",
                }
                .into());
            }
            if self.is_paused.load(Ordering::SeqCst) {
                let error = Error::new(ErrorKind::Busy, "the sandbox is paused");
                return Err(error.with_remedy("resume it first"));
            }
            if *self.shared.killed.borrow() {
                return Err(Error::new(ErrorKind::Lost, "the sandbox has ended"));
            }
            let slot = Slot::take(&self.shared)?;
            let most = Duration::from_secs_f64(self.shared.limits.timeout_seconds);
            let timeout = execution.timeout.map_or(most, |timeout| timeout.min(most));
            let command = self.setup.command(execution)?;
            let lost = |error: AcaError| match error {
                AcaError::Missing { .. } | AcaError::NeverRuns { .. } => {
                    Error::new(ErrorKind::Lost, error)
                }
                error => error.into(),
            };
            ensure_running(&self.shared.service, &self.shared.id, &self.body)
                .await
                .map_err(lost)?;
            let ((stdin, far_in), (far_out, stdout), (far_err, stderr)) =
                (duplex(STREAM), duplex(STREAM), duplex(STREAM));
            let id = RunId::new()?;
            let job = Job {
                shared: Arc::clone(&self.shared),
                id,
                command,
                timeout,
                stdin: far_in,
                stdout: far_out,
                stderr: far_err,
            };
            job.prepare().await.map_err(lost)?;
            let control = Arc::new(RunControl { shared: Arc::clone(&self.shared), id });
            let (sender, ended) = oneshot::channel();
            tokio::spawn(async move {
                let end = job.run().await;
                drop(slot);
                // The caller may not wait for it.
                let _ = sender.send(end);
            });
            let gone = |_| Err(Error::new(ErrorKind::Lost, "the runtime of the sandbox has ended"));
            let end: BoxFuture<'static, Result<ProcessEnd, Error>> =
                Box::pin(async move { ended.await.unwrap_or_else(gone) });
            Ok(Running {
                id: ExecutionId(0),
                control,
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                end,
            })
        })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        let service = Arc::clone(&self.shared.service);
        Ok(Arc::new(RemoteFiles { service, id: self.shared.id.clone() }))
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        // The runner holds every limit of a program, and the engine the rest.
        Box::pin(std::future::pending())
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut killed = self.shared.killed.subscribe();
            loop {
                tokio::select! {
                    _ = killed.wait_for(|killed| *killed) => return,
                    () = sleep(LOOK) => {}
                }
                // A failed poll does not show that the sandbox is gone.
                match self.shared.service.get(&self.shared.id).await {
                    Err(AcaError::Missing { .. }) => return,
                    Ok(view) if State::of(&view) == State::Over => return,
                    _ => {}
                }
            }
        })
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.is_paused.store(true, Ordering::SeqCst);
            let shared = &self.shared;
            shared.service.ask_runner::<Sent>(&shared.id, Verb::Stop, RunId::new()?, None).await?;
            Ok(())
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            let shared = &self.shared;
            let verb = Verb::Continue;
            shared.service.ask_runner::<Sent>(&shared.id, verb, RunId::new()?, None).await?;
            self.is_paused.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn observe(&self) -> BoxFuture<'_, SandboxUsage> {
        Box::pin(std::future::ready(self.shared.observed()))
    }

    fn decided(&self) -> BoxFuture<'_, Vec<DecidedRequest>> {
        Box::pin(async {
            let is_idle = !self.shared.is_busy.load(Ordering::SeqCst);
            if is_idle && !*self.shared.killed.borrow() && self.shared.requests().is_empty() {
                // The last requests may have been decided after the program ended.
                let _ = timeout(LAST_LOOK, self.shared.look_at_decisions()).await;
            }
            std::mem::take(&mut *self.shared.requests())
        })
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if !*self.shared.killed.borrow() {
                // The requests of a program that is killed belong to the record too.
                let _ = timeout(LAST_LOOK, self.shared.look_at_decisions()).await;
            }
            self.shared.lose().await;
        })
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.shared.killed.send_replace(true);
            match self.shared.take() {
                Some(held) => Ok(held.delete().await?),
                None => Ok(()),
            }
        })
    }
}
