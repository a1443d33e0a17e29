//! One running sandbox of the native or the reduced wall.
//!
//! ```text
//! ready ──── start ──▶ running ── its end ──▶ ready
//!     │                    │
//!     └────── kill, drop or end ──────▶ ending ── the launcher has released everything ──▶ gone
//! ```
//! The launcher ends everything when its control socket closes for any reason: dropping this value
//! is enough, and so is the death of this process.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_core::future::BoxFuture;
use rustix::process::Signal;
use stockade_carrier::Link;
use stockade_interpreters::ProgramSetup;
use stockade_launcher::Ending;
use stockade_policy::Limit;
use stockade_provider::{
    Error, ErrorKind, Execution, ExecutionControl, ExecutionId, ExecutionUsage, Files, ProcessEnd,
    Running, Sandbox, SandboxUsage, Stdio, TerminalSize,
};
use stockade_watchdog::Aside;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::StartError;
use crate::looks::{blocking, release};
use crate::observe::{HostMeter, Watched, bounds};
use crate::programs::Programs;
use crate::start::{Control, Deadline, Held, HostProcess, Launcher, Prepared, Wall};

/// How long a killed execution may take to end before its sandbox is ended.
const CONFIRMED: Duration = Duration::from_millis(500);

/// The error for a terminal.
const NO_TERMINALS: StartError = StartError::Unsupported {
    what: "a terminal",
    reason: "programs behind this wall have pipes",
    remedy: "start the program with pipes",
};

/// One running sandbox.
pub(crate) struct NativeSandbox {
    control: Arc<Control>,
    link: Link,
    launcher: Option<Launcher>,
    /// The first process inside.
    first: Arc<OwnedFd>,
    setup: Arc<ProgramSetup>,
    /// A system call that every start needs and a profile of the policy refuses.
    refused_call: Option<String>,
    deadline: Arc<Deadline>,
    watched: Arc<Watched>,
    /// The number of programs started so far.
    starts: Arc<AtomicU64>,
    user: HostProcess,
}

impl NativeSandbox {
    pub(crate) fn new(wall: Wall, mut prepared: Prepared) -> Result<NativeSandbox, StartError> {
        let (memory_held, cpu_held, pids_held) =
            (prepared.memory_held, prepared.cpu_held, prepared.pids_held);
        // Before any start: execve inside blocks until the notification is answered.
        let programs = wall.programs.zip(prepared.listed.take()).map(|(listener, listed)| {
            let watching = Programs::watch(listener, listed);
            watching.map_err(StartError::prepare("watch what is started"))
        });
        let programs = programs.transpose()?;
        let policy = Arc::clone(&prepared.policy);
        let scratch = prepared.scratch.take();
        let has_directory = scratch.is_some();
        let is_counted = memory_held && cpu_held && pids_held;
        let aside = (has_directory || !is_counted).then(|| {
            let bounds = (!is_counted).then(|| bounds(&policy));
            let policy = Arc::clone(&policy);
            let (first, directory) = (wall.process, scratch);
            let meter = HostMeter { first, bounds, directory, policy, looks: 0 };
            Aside::start(meter).map_err(StartError::prepare("watch the sandbox"))
        });
        let watched = Watched {
            scratch: Mutex::new(wall.scratch),
            programs,
            group: Mutex::new(prepared.group.take()),
            policy,
            aside: aside.transpose()?,
            has_directory,
            memory_held,
            cpu_held,
            pids_held,
            before_kill: OnceLock::new(),
            seen: Mutex::default(),
        };
        Ok(NativeSandbox {
            control: wall.control,
            link: wall.link,
            launcher: Some(wall.launcher),
            first: Arc::new(wall.handle),
            setup: Arc::clone(&prepared.setup),
            refused_call: prepared.filters.refused_call.take(),
            deadline: wall.deadline,
            watched: Arc::new(watched),
            starts: Arc::default(),
            user: prepared.user,
        })
    }

    /// Ends the sandbox and waits until the launcher has released everything.
    pub(crate) async fn finish(mut self) -> Result<(), StartError> {
        let cannot = || StartError::prepare("wait for the end of a sandbox");
        // First: the process that closes the last descriptor of a file system waits for its
        // unmount.
        let (group, scratch) = self.watched.take();
        release(scratch, self.user);
        // If this future is dropped here, the launcher is still reaped.
        self.control.ended().await.map_err(cannot())?;
        let Some(launcher) = self.launcher.take() else { return Ok(()) };
        let waited = move || match launcher.wait().map_err(cannot())? {
            status if status.success() => Ok(()),
            _ => match group {
                Some(group) => group.take_back().map_err(|_| StartError::Left),
                None => Err(StartError::Left),
            },
        };
        blocking(waited).await
    }

    /// A started program with its control, and with an end that the launcher's report explains.
    async fn controlled(
        &self,
        started: Result<Running, Error>,
        held: Option<Held>,
    ) -> Result<Running, Error> {
        let launcher = Arc::clone(&self.control);
        match started {
            Ok(running) => {
                let end = running.end;
                let end = Box::pin(async move {
                    let end = explain(end.await, &launcher).await;
                    drop(held);
                    end
                });
                Ok(Running { control: self.execution(Some(running.control)), end, ..running })
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                Ok(gone(explain(Err(error), &launcher).await?, self.execution(None)))
            }
            Err(error) => Err(error),
        }
    }

    /// The control of a new execution.
    fn execution(&self, guest: Option<Arc<dyn ExecutionControl>>) -> Arc<dyn ExecutionControl> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let (watched, starts) = (Arc::clone(&self.watched), Arc::clone(&self.starts));
        Arc::new(NativeExecution { guest, watched, starts })
    }

    /// The same program, killed at its timeout even if its end is not awaited.
    fn limited(&self, running: Running, limit: Duration) -> Running {
        let (execution, sandbox) = (Arc::clone(&running.control), Arc::clone(&self.control));
        let (sender, ended) = oneshot::channel();
        let mut end = running.end;
        tokio::spawn(async move {
            let result = match timeout(limit, &mut end).await {
                Ok(result) => result,
                Err(_) => {
                    // Fails if the sandbox has already ended.
                    let _ = execution.kill().await;
                    if timeout(CONFIRMED, &mut end).await.is_err() {
                        sandbox.end();
                    }
                    Ok(ProcessEnd::LimitExceeded { limit: Limit::Timeout })
                }
            };
            let _ = sender.send(result);
        });
        let lost = |_| Err(Error::new(ErrorKind::Lost, "the runtime of the sandbox has ended"));
        let end = Box::pin(async move { ended.await.unwrap_or_else(lost) });
        Running { end, ..running }
    }
}

/// The control of one execution: the guest acts on it, and the host measures it.
struct NativeExecution {
    /// `None` if the sandbox ended before the program could start.
    guest: Option<Arc<dyn ExecutionControl>>,
    watched: Arc<Watched>,
    starts: Arc<AtomicU64>,
}

impl ExecutionControl for NativeExecution {
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>> {
        match &self.guest {
            Some(guest) => guest.signal(signal),
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        match &self.guest {
            Some(guest) => guest.kill(),
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        match &self.guest {
            Some(guest) => guest.resize(size),
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async {
            // The sandbox's counters belong to one execution only if it is the only one so far.
            if self.starts.load(Ordering::Relaxed) != 1 {
                return ExecutionUsage::default();
            }
            let watched = Arc::clone(&self.watched);
            let used = blocking(move || watched.observe()).await;
            ExecutionUsage {
                cpu_time: used.cpu_time,
                memory_peak_bytes: used.memory_peak_bytes,
                tasks_peak: used.tasks_peak,
                oom_kills: used.oom_kills,
            }
        })
    }
}

/// Adds the launcher's report to an end if the stream to the guest was lost.
async fn explain(end: Result<ProcessEnd, Error>, control: &Control) -> Result<ProcessEnd, Error> {
    let is_lost = match &end {
        Ok(end) => matches!(end, ProcessEnd::SandboxEnded { .. }),
        Err(error) => error.kind() == ErrorKind::Lost,
    };
    if !is_lost {
        return end;
    }
    match control.ending().await {
        Some(Ending { signal: Some(signal), .. }) => {
            Ok(ProcessEnd::SandboxEnded { signal: Some(signal) })
        }
        _ => end,
    }
}

/// A program that does not run: the sandbox ended before it, or it cannot be started.
fn gone(end: ProcessEnd, control: Arc<dyn ExecutionControl>) -> Running {
    Running {
        id: ExecutionId(0),
        control,
        stdin: Box::new(tokio::io::empty()),
        stdout: Box::new(tokio::io::empty()),
        stderr: Box::new(tokio::io::empty()),
        end: Box::pin(std::future::ready(Ok(end))),
    }
}

impl Sandbox for NativeSandbox {
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(async {
            if let Stdio::Terminal(_) = execution.stdio {
                return Err(NO_TERMINALS.into());
            }
            let limit = execution.timeout;
            let command = self.setup.command(execution)?;
            if let Some(call) = &self.refused_call {
                let (program, refused_call) = (command.program, Some(call.clone()));
                let errno = rustix::io::Errno::PERM.raw_os_error();
                let end = ProcessEnd::NotStarted { errno, program, refused_call };
                return Ok(gone(end, self.execution(None)));
            }
            let held = self.deadline.hold_timeout();
            let started = self.link.execute(command).map(|(_, running)| running);
            let running = self.controlled(started, held).await?;
            Ok(match limit {
                Some(limit) => self.limited(running, limit),
                None => running,
            })
        })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        Ok(self.link.files(&self.setup.directories.working_directory))
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        Box::pin(self.watched.exceeded(&self.link))
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.ended())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.link.pause()?) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.link.resume()?) })
    }

    fn observe(&self) -> BoxFuture<'_, SandboxUsage> {
        let watched = Arc::clone(&self.watched);
        Box::pin(blocking(move || watched.observe()))
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        let (watched, first) = (Arc::clone(&self.watched), Arc::clone(&self.first));
        Box::pin(async {
            blocking(move || {
                watched.keep();
                // Fails if the process has already ended.
                let _ = rustix::process::pidfd_send_signal(&*first, Signal::KILL);
            })
            .await;
            self.control.end();
        })
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async { (*self).finish().await.map_err(Error::from) })
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        let (group, scratch) = self.watched.take();
        // Before the end: the process that closes the last descriptor of a file system waits for
        // its unmount.
        release(scratch, self.user);
        self.control.end();
        if let Some(launcher) = self.launcher.take() {
            launcher.leave(group, self.user);
        }
    }
}
