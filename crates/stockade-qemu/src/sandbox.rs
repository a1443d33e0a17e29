//! One running sandbox: a machine whose first process is the guest.
//!
//! ```text
//! ready ──── start ──▶ running ── its end ──▶ ready
//!     ├────── kill, drop or end ───▶ ending ── the jail is gone ──▶ gone
//!     └── the machine ended: a panic, or QEMU's own end ──▶ lost
//! ```
//! Ending the jail is enough to end everything: QEMU is a program in it, and nothing of the machine
//! is elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_archive::tree::Target;
use stockade_bootimage::BootImage;
use stockade_carrier::{Link, follow};
use stockade_interpreters::ProgramSetup;
use stockade_policy::{Limit, Policy};
use stockade_provider::{
    Error, ErrorKind, Execution, ExecutionControl, ExecutionId, ExecutionUsage, Files, Ports,
    ProcessEnd, Running, Sandbox, SandboxUsage, StartNote, TerminalSize, WritablePlace,
};
use tokio::time::sleep;

use crate::QemuError;
use crate::outputs::{MOST, Outputs};
use crate::start::{Qemu, Started};
use crate::stops::Stops;
use crate::usage::{Counts, counts};

/// How often processor time is compared with its limit.
const LOOK: Duration = Duration::from_millis(200);
const SIGKILL: i32 = 9;

/// One running sandbox.
pub(crate) struct QemuSandbox {
    shared: Arc<Shared>,
    setup: Arc<ProgramSetup>,
    policy: Arc<Policy>,
    refused_call: Option<String>,
    starts: Arc<AtomicU64>,
    image: BootImage,
    note: StartNote,
}

/// The machine, for the tasks of executions too.
struct Shared {
    jail: Box<dyn Sandbox>,
    link: Link,
    stops: Stops,
    /// Whether this process ended the machine.
    is_killed: AtomicBool,
    outputs: Option<Outputs>,
    qemu: Qemu,
    /// The guest's own files, with the counts of the cgroup.
    files: Arc<dyn Files>,
    /// What the boot used.
    before: Duration,
    last: std::sync::Mutex<Counts>,
}

impl QemuSandbox {
    pub(crate) async fn new(
        started: Started,
        setup: ProgramSetup,
        policy: Arc<Policy>,
        refused_call: Option<String>,
        image: BootImage,
        outputs: Vec<(String, Target)>,
    ) -> QemuSandbox {
        let Started { jail, link, qemu, note } = started;
        let before = jail.observe().await.cpu_time.unwrap_or_default();
        let files = link.files("/", Vec::new());
        let shared = Shared {
            outputs: Outputs::of(&link, &policy, outputs),
            jail,
            link,
            stops: Stops::default(),
            is_killed: AtomicBool::new(false),
            qemu,
            files,
            before,
            last: std::sync::Mutex::default(),
        };
        QemuSandbox {
            shared: Arc::new(shared),
            setup: Arc::new(setup),
            policy,
            refused_call,
            starts: Arc::default(),
            image,
            note,
        }
    }

    /// The control of a new execution.
    fn control(&self, guest: Option<Arc<dyn ExecutionControl>>) -> Arc<dyn ExecutionControl> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let (shared, starts) = (Arc::clone(&self.shared), Arc::clone(&self.starts));
        Arc::new(MachineExecution { guest, shared, starts })
    }
}

impl Shared {
    /// The counts of the cgroup inside; the last known ones if the machine has ended.
    async fn counts(&self) -> Counts {
        let found = counts(&self.files).await;
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(found) = found {
            *last = found;
        }
        *last
    }

    async fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        self.jail.kill().await;
    }

    async fn deliver(&self) -> Result<(), Error> {
        let Some(outputs) = &self.outputs else { return Ok(()) };
        if let Some(delivered) = outputs.deliver(&self.link, &self.stops).await {
            return delivered;
        }
        // A guest that does not finish is hostile, or of no use any more.
        self.kill().await;
        Err(QemuError::SlowDelivery { most: MOST }.into())
    }

    async fn cpu_time(&self) -> Option<Duration> {
        let used = self.jail.observe().await.cpu_time?;
        Some(used.saturating_sub(self.before))
    }

    async fn usage(&self) -> SandboxUsage {
        let counts = self.counts().await;
        SandboxUsage {
            cpu_time: self.cpu_time().await,
            memory_peak_bytes: counts.memory_peak_bytes,
            tasks_peak: counts.tasks_peak,
            oom_kills: counts.memory_kills,
            ..SandboxUsage::default()
        }
    }
}

/// The control of one execution: the guest acts on it.
struct MachineExecution {
    /// `None` if the program could not start.
    guest: Option<Arc<dyn ExecutionControl>>,
    shared: Arc<Shared>,
    starts: Arc<AtomicU64>,
}

impl ExecutionControl for MachineExecution {
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
            // The machine's counters belong to one execution only if it is the only one so far.
            if self.starts.load(Ordering::Relaxed) != 1 {
                return ExecutionUsage::default();
            }
            let used = self.shared.usage().await;
            ExecutionUsage {
                cpu_time: used.cpu_time,
                memory_peak_bytes: used.memory_peak_bytes,
                tasks_peak: used.tasks_peak,
                oom_kills: used.oom_kills,
                limits_hit: used.limits_hit,
                denials: used.denials,
            }
        })
    }
}

/// Copies what programs wrote to the host, and finds the reason of an end that only the machine
/// knows.
async fn explain(end: Result<ProcessEnd, Error>, shared: &Shared) -> Result<ProcessEnd, Error> {
    let is_lost = match &end {
        Ok(ProcessEnd::Signaled { signal: SIGKILL }) => {
            // While the machine runs, so that the count is known when the caller asks.
            shared.counts().await;
            false
        }
        Ok(end) => matches!(end, ProcessEnd::SandboxEnded { .. }),
        Err(error) => error.kind() == ErrorKind::Lost,
    };
    if !is_lost {
        return match shared.deliver().await {
            Err(error) if error.kind() != ErrorKind::Lost => Err(error),
            // What was written last is lost with the machine; the end says why that ended.
            Ok(()) | Err(_) => end,
        };
    }
    let has_ended = shared.qemu.last_words().await;
    let line = match shared.qemu.console.panic() {
        Some(line) => line,
        None if has_ended && !shared.is_killed.load(Ordering::SeqCst) => {
            "QEMU ended while the program ran".to_owned()
        }
        None => return end,
    };
    let reason = format!("{line}; the console's last lines:\n{}", shared.qemu.console.tail());
    Ok(ProcessEnd::Trapped { reason })
}

/// A program that does not run.
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

impl Sandbox for QemuSandbox {
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(async {
            let limit = execution.timeout;
            let command = self.setup.command(execution)?;
            if let Some(call) = &self.refused_call {
                let (program, refused_call) = (command.program, Some(call.clone()));
                let errno = rustix::io::Errno::PERM.raw_os_error();
                let end = ProcessEnd::NotStarted { errno, program, refused_call };
                return Ok(gone(end, self.control(None)));
            }
            let shared = Arc::clone(&self.shared);
            let Some(moment) = shared.stops.starting().await else {
                let error = Error::new(ErrorKind::Busy, "the sandbox is paused");
                return Err(error.with_remedy("resume it first"));
            };
            let executed = shared.link.execute(command);
            drop(moment);
            let running = match executed {
                Ok((_, running)) => running,
                Err(error) if error.kind() == ErrorKind::Lost => {
                    let end = explain(Err(error), &shared).await?;
                    return Ok(gone(end, self.control(None)));
                }
                Err(error) => return Err(error),
            };
            let control = self.control(Some(running.control));
            let machine = Arc::clone(&shared);
            let end_sandbox = async move { machine.kill().await };
            let finish = move |end| async move { explain(end, &shared).await };
            let end = follow(running.end, limit, Arc::clone(&control), end_sandbox, finish);
            Ok(Running { control, end, ..running })
        })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        let places = WritablePlace::of(&self.policy);
        Ok(self.shared.link.files(&self.setup.directories.working_directory, places))
    }

    fn ports(&self) -> Result<Arc<dyn Ports>, Error> {
        Ok(self.shared.link.ports())
    }

    fn start_note(&self) -> Option<StartNote> {
        Some(self.note.clone())
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        Box::pin(async {
            let Some(most) = self.policy.limits.value(Limit::CpuTime) else {
                return std::future::pending().await;
            };
            let most = Duration::from_millis(most);
            loop {
                sleep(LOOK).await;
                if self.shared.cpu_time().await.is_some_and(|used| used > most) {
                    return Limit::CpuTime;
                }
            }
        })
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.link.ended())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.shared.stops.pause(&self.shared.link).await?) })
    }

    fn hold(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.shared.stops.hold(&self.shared.link).await?) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.shared.stops.resume(&self.shared.link).await?) })
    }

    fn observe(&self) -> BoxFuture<'_, SandboxUsage> {
        Box::pin(self.shared.usage())
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.kill())
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async {
            let QemuSandbox { shared, image, .. } = *self;
            shared.kill().await;
            let changed = image.check().map_err(QemuError::from);
            match Arc::try_unwrap(shared) {
                Ok(Shared { jail, link, .. }) => {
                    drop(link);
                    jail.end().await?;
                }
                // A running task holds it, and its drop ends the jail.
                Err(shared) => {
                    shared.qemu.last_words().await;
                }
            }
            Ok(changed?)
        })
    }
}
