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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_core::future::BoxFuture;
use rustix::process::Signal;
use stockade_carrier::{CONFIRMED, ExecutionControl as Guest, Link};
use stockade_image::Denials;
use stockade_interpreters::ProgramSetup;
use stockade_policy::Limit;
use stockade_provider::{
    Command, Error, ErrorKind, Execution, ExecutionControl, ExecutionId, Files, Ports, ProcessEnd,
    Running, Sandbox, SandboxUsage, Stdio, WritablePlace,
};
use stockade_watchdog::Aside;
use tokio::time::{sleep, timeout};

use crate::error::StartError;
use crate::execution::{NativeExecution, explain};
use crate::facts_cache::{blocking, release};
use crate::leaves::Leaf;
use crate::observe::{HostMeter, Watched, bounds};
use crate::programs::Programs;
use crate::start::{Deadline, Held, HostProcess, Launcher, LauncherSocket, Prepared, Wall};

/// How often to check whether a program has started.
const STARTING: Duration = Duration::from_millis(1);

/// The error for a terminal behind a wall that has none.
const NO_TERMINALS: StartError = StartError::Unsupported {
    what: "a terminal",
    reason: "this wall mounts no terminals of its own, and those of the host stay hidden",
    remedy: "start the program with pipes, or use a host with namespaces",
};

/// The error for ports behind a wall without a network of its own.
const NO_LOOPBACK: StartError = StartError::Unsupported {
    what: "a forwarded port",
    reason: "this wall has no network of its own, and no program inside can open a port",
    remedy: "use a host with namespaces",
};

/// One running sandbox.
pub(crate) struct NativeSandbox {
    control: Arc<LauncherSocket>,
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
    has_terminals: bool,
    has_loopback: bool,
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
            leaves: prepared.leaves.take(),
            programs,
            denials: prepared.denials.take(),
            group: Mutex::new(prepared.group.take()),
            policy,
            aside: aside.transpose()?,
            has_directory,
            memory_held,
            cpu_held,
            pids_held,
            before_kill: OnceLock::new(),
            seen: Mutex::default(),
            running: tokio::sync::watch::Sender::new(0),
            driver: tokio::sync::Mutex::default(),
            found: tokio::sync::watch::Sender::new(None),
            held: AtomicBool::new(false),
            paused: AtomicBool::new(false),
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
            has_terminals: prepared.has_terminals,
            has_loopback: prepared.has_loopback,
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

    /// A started program with its control, and with an end that comes after that of all its
    /// processes and that the launcher's report explains.
    async fn controlled(
        &self,
        started: Result<(Guest, Running), Error>,
        leaf: Option<Arc<Leaf>>,
        held: Option<Held>,
        limit: Option<Duration>,
    ) -> Result<Running, Error> {
        let launcher = Arc::clone(&self.control);
        match started {
            Ok((guest, running)) => {
                let control = self.execution(Some(guest), leaf, held);
                let end = control.followed(running.end, limit);
                Ok(Running { control, end, ..running })
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                let end = explain(Err(error), &launcher).await?;
                Ok(gone(end, self.execution(None, None, None)))
            }
            Err(error) => Err(error),
        }
    }

    /// The control of a new execution.
    fn execution(
        &self,
        guest: Option<Guest>,
        leaf: Option<Arc<Leaf>>,
        held: Option<Held>,
    ) -> Arc<NativeExecution> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        Arc::new(NativeExecution {
            guest,
            listening: self.watched.denials.as_ref().map(Denials::listen),
            leaf,
            held: Mutex::new(held),
            sandbox: Arc::clone(&self.control),
            watched: Arc::clone(&self.watched),
            starts: Arc::clone(&self.starts),
        })
    }

    fn check_paused(&self) -> Result<(), Error> {
        match self.watched.paused.load(Ordering::SeqCst) {
            true => {
                Err(Error::new(ErrorKind::Busy, "the sandbox is paused")
                    .with_remedy("resume it first"))
            }
            false => Ok(()),
        }
    }

    /// Starts a command in a leaf of its own, if this sandbox has leaves.
    async fn start_in_leaf(
        &self,
        command: Command,
    ) -> Result<(Result<(Guest, Running), Error>, Option<Arc<Leaf>>), Error> {
        let Some(leaves) = &self.watched.leaves else {
            return Ok((self.link.execute(command), None));
        };
        let is_repeated = command.next_code.is_some();
        let leaf = match leaves.take(is_repeated) {
            Some(leaf) => leaf,
            None => {
                let leaves = Arc::clone(leaves);
                blocking(move || leaves.make()).await?
            }
        };
        // Before the check: a pause either sees the leaf or is seen here.
        leaves.live(&leaf);
        let started = self.check_paused().and_then(|()| Ok(leaves.send(&leaf)?));
        let next = is_repeated.then(|| leaves.announce()).flatten();
        match started.and_then(|()| self.link.execute_in(command, Some(leaf.number), next)) {
            Ok((guest, running)) => {
                // Fails only if it is set already.
                let _ = leaf.guest.set(guest.clone());
                // Not for the first: most sandboxes have one program.
                if leaf.number > 1 {
                    let leaves = Arc::clone(leaves);
                    tokio::task::spawn_blocking(move || leaves.tidy(is_repeated));
                }
                Ok((Ok((guest, running)), Some(leaf)))
            }
            Err(error) => {
                leaves.give_back(leaf);
                Ok((Err(error), None))
            }
        }
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
            if let (Stdio::Terminal(_), false) = (execution.stdio, self.has_terminals) {
                return Err(NO_TERMINALS.into());
            }
            self.check_paused()?;
            let limit = execution.timeout;
            let command = self.setup.command(execution)?;
            if let Some(call) = &self.refused_call {
                let (program, refused_call) = (command.program, Some(call.clone()));
                let errno = rustix::io::Errno::PERM.raw_os_error();
                let end = ProcessEnd::NotStarted { errno, program, refused_call };
                return Ok(gone(end, self.execution(None, None, None)));
            }
            let held = self.deadline.hold_timeout();
            let (started, leaf) = self.start_in_leaf(command).await?;
            self.controlled(started, leaf, held, limit).await
        })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        // Without mounts, what programs write is in one directory of the host, and a checkpoint
        // could not tell it from the wall's own files.
        let places = match self.watched.has_directory {
            true => Vec::new(),
            // Files of the wall are on file systems of their own, which are left out anyway. In a
            // sandbox without them, a program may have made the name.
            false => WritablePlace::of(&self.watched.policy)
                .into_iter()
                .map(|place| WritablePlace { skip: Vec::new(), ..place })
                .collect(),
        };
        Ok(self.link.files(&self.setup.directories.working_directory, places))
    }

    fn ports(&self) -> Result<Arc<dyn Ports>, Error> {
        match self.has_loopback {
            true => Ok(self.link.ports()),
            false => Err(NO_LOOPBACK.into()),
        }
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        Box::pin(self.watched.exceeded(&self.link))
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.ended())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.watched.paused.store(true, Ordering::SeqCst);
            self.hold().await
        })
    }

    fn hold(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.watched.held.store(true, Ordering::SeqCst);
            let Some(leaves) = &self.watched.leaves else { return Ok(self.link.pause()?) };
            for leaf in leaves.running() {
                // Starting takes milliseconds; nothing starts from now on.
                let started = async {
                    while !leaf.has_started() {
                        sleep(STARTING).await;
                    }
                };
                if timeout(CONFIRMED, started).await.is_err() {
                    self.resume().await?;
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "a program of the sandbox is starting",
                    )
                    .with_remedy("pause it again"));
                }
                leaf.freeze()?;
            }
            let frozen = async {
                for leaf in leaves.running() {
                    while !leaf.is_frozen()? {
                        sleep(STARTING).await;
                    }
                }
                Ok::<(), StartError>(())
            };
            match timeout(CONFIRMED, frozen).await {
                Ok(frozen) => Ok(frozen?),
                Err(_) => {
                    self.resume().await?;
                    let error = Error::new(
                        ErrorKind::Busy,
                        "a program is in a system call that does not end",
                    );
                    Err(error.with_remedy("try again, or end the program with `stockade kill`"))
                }
            }
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            match &self.watched.leaves {
                Some(leaves) => {
                    for leaf in leaves.running() {
                        leaf.thaw()?;
                    }
                }
                None => self.link.resume()?,
            }
            self.watched.paused.store(false, Ordering::SeqCst);
            self.watched.held.store(false, Ordering::SeqCst);
            Ok(())
        })
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
