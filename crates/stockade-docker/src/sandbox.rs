//! One running sandbox: a container whose first process is the guest.
//!
//! ```text
//! ready ──── start ──▶ running ── its end ──▶ ready
//!     ├────── kill, drop or end ──────▶ ending ── the engine has removed the container ──▶ gone
//!     └── the engine or the guest is gone ──▶ lost
//! ```
//! Closing the stream is enough to end everything: the guest exits at the end of its input, and the
//! engine then removes the container with its volume.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bollard::query_parameters::{KillContainerOptionsBuilder, StatsOptionsBuilder};
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use stockade_carrier::{Link, follow};
use stockade_image::{Denials, Listening};
use stockade_interpreters::ProgramSetup;
use stockade_policy::{Limit, Policy};
use stockade_provider::{
    Error, ErrorKind, Execution, ExecutionControl, ExecutionId, ExecutionUsage, Files, Ports,
    ProcessEnd, Running, Sandbox, SandboxUsage, TerminalSize, WritablePlace,
};
use tokio::time::{sleep, timeout};

use crate::engine::Engine;
use crate::events::Events;
use crate::start::{Container, StartedContainer};

/// How long the engine's report about a kill may take.
const REPORTED: Duration = Duration::from_millis(400);
/// How long the engine's report about the end of a container may take; a lost engine ends the wait.
const ENDED: Duration = Duration::from_secs(4);
/// How long the request of a kill may take until it is written; the engine answers later.
const SENT: Duration = Duration::from_millis(20);
/// How long the engine may take to remove a container.
const REMOVED: Duration = Duration::from_secs(10);
/// How often processor time is compared with its limit.
const LOOK: Duration = Duration::from_millis(200);
const SIGKILL: i32 = 9;

/// One running sandbox.
pub(crate) struct DockerSandbox {
    shared: Arc<Shared>,
    link: Link,
    setup: Arc<ProgramSetup>,
    policy: Arc<Policy>,
    places: Vec<WritablePlace>,
    refused_call: Option<String>,
    /// How the container is isolated, with the kernel that runs it.
    isolation: String,
    starts: Arc<AtomicU64>,
    /// Whether programs are paused and none may start.
    paused: AtomicBool,
}

/// The container, for the tasks of executions too.
struct Shared {
    events: Events,
    container: Container,
    /// The commands that stubs of the hardened image reported, if it is that image.
    denials: Option<Arc<Denials>>,
}

impl DockerSandbox {
    pub(crate) fn new(
        started: StartedContainer,
        setup: ProgramSetup,
        policy: Arc<Policy>,
        places: Vec<WritablePlace>,
        refused_call: Option<String>,
        isolation: String,
        denials: Option<Arc<Denials>>,
    ) -> DockerSandbox {
        let StartedContainer { container, link, events, .. } = started;
        DockerSandbox {
            shared: Arc::new(Shared { events, container, denials }),
            link,
            setup: Arc::new(setup),
            policy,
            places,
            refused_call,
            isolation,
            starts: Arc::default(),
            paused: AtomicBool::new(false),
        }
    }

    /// The control of a new execution.
    fn control(&self, guest: Option<Arc<dyn ExecutionControl>>) -> Arc<dyn ExecutionControl> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let (shared, starts) = (Arc::clone(&self.shared), Arc::clone(&self.starts));
        let listening = shared.denials.as_ref().map(Denials::listen);
        Arc::new(DockerExecution { guest, shared, starts, listening })
    }
}

impl Shared {
    fn engine(&self) -> &Engine {
        &self.container.engine
    }

    async fn kill(&self) {
        let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
        let docker = &self.engine().docker;
        let kill = docker.kill_container(&self.container.id, Some(options));
        // Fails if the container has ended, or the engine with it.
        let _ = self.engine().ask("kill a container", kill).await;
    }

    async fn usage(&self) -> SandboxUsage {
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let docker = &self.engine().docker;
        let stats = async { docker.stats(&self.container.id, Some(options)).next().await };
        let stats = timeout(REMOVED, stats).await.ok().flatten().and_then(Result::ok);
        let cpu = stats.as_ref().and_then(|it| it.cpu_stats.as_ref()?.cpu_usage.as_ref());
        let memory = stats.as_ref().and_then(|it| it.memory_stats.as_ref());
        SandboxUsage {
            cpu_time: cpu
                .and_then(|cpu| cpu.total_usage)
                .filter(|total| *total > 0)
                .map(Duration::from_nanos),
            memory_bytes: memory.and_then(|memory| memory.usage).filter(|used| *used > 0),
            // Only cgroup v1 counts the maximum.
            memory_peak_bytes: memory.and_then(|memory| memory.max_usage).filter(|max| *max > 0),
            oom_kills: self.events.seen().memory_kills,
            denials: self.denials.iter().flat_map(|denials| denials.all()).collect(),
            ..SandboxUsage::default()
        }
    }
}

/// The control of one execution: the guest acts on it, and the engine measures it.
struct DockerExecution {
    /// `None` if the program could not start.
    guest: Option<Arc<dyn ExecutionControl>>,
    shared: Arc<Shared>,
    starts: Arc<AtomicU64>,
    /// The denied commands that were reported since its start.
    listening: Option<Listening>,
}

impl ExecutionControl for DockerExecution {
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
            let denials = self.listening.iter().flat_map(Listening::heard).collect();
            // The container's counters belong to one execution only if it is the only one so far.
            if self.starts.load(Ordering::Relaxed) != 1 {
                return ExecutionUsage { denials, ..ExecutionUsage::default() };
            }
            let used = self.shared.usage().await;
            ExecutionUsage {
                cpu_time: used.cpu_time,
                memory_peak_bytes: used.memory_peak_bytes,
                tasks_peak: None,
                oom_kills: used.oom_kills,
                limits_hit: used.limits_hit,
                denials,
            }
        })
    }
}

/// Waits for the engine's report if the end may have a cause that only the engine knows.
async fn explain(
    end: Result<ProcessEnd, Error>,
    shared: &Shared,
    kills_before: u64,
) -> Result<ProcessEnd, Error> {
    let is_lost = match &end {
        Ok(ProcessEnd::Signaled { signal: SIGKILL }) => {
            let killed = |seen: &crate::events::Seen| seen.memory_kills > kills_before;
            shared.events.wait_for(REPORTED, killed).await;
            return end;
        }
        Ok(end) => matches!(end, ProcessEnd::SandboxEnded { .. }),
        Err(error) => error.kind() == ErrorKind::Lost,
    };
    if !is_lost {
        return end;
    }
    let seen = shared.events.wait_for(ENDED, |seen| seen.exit_code.is_some()).await;
    if seen.exit_code == Some(128 + SIGKILL) {
        // The engine may report the cause after the end.
        shared.events.wait_for(REPORTED, |seen| seen.memory_kills > kills_before).await;
    }
    match seen.exit_code {
        Some(code) if code > 128 => Ok(ProcessEnd::SandboxEnded { signal: Some(code - 128) }),
        _ => end,
    }
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

impl Sandbox for DockerSandbox {
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(async {
            if self.paused.load(Ordering::SeqCst) {
                let error = Error::new(ErrorKind::Busy, "the sandbox is paused");
                return Err(error.with_remedy("resume it first"));
            }
            let limit = execution.timeout;
            let command = self.setup.command(execution)?;
            if let Some(call) = &self.refused_call {
                let (program, refused_call) = (command.program, Some(call.clone()));
                let errno = rustix::io::Errno::PERM.raw_os_error();
                let end = ProcessEnd::NotStarted { errno, program, refused_call };
                return Ok(gone(end, self.control(None)));
            }
            let kills = self.shared.events.seen().memory_kills;
            let shared = Arc::clone(&self.shared);
            let running = match self.link.execute(command) {
                Ok((_, running)) => running,
                Err(error) if error.kind() == ErrorKind::Lost => {
                    let end = explain(Err(error), &shared, kills).await?;
                    return Ok(gone(end, self.control(None)));
                }
                Err(error) => return Err(error),
            };
            let control = self.control(Some(running.control));
            let container = Arc::clone(&shared);
            let end_sandbox = async move { container.kill().await };
            let finish = move |end| async move { explain(end, &shared, kills).await };
            let end = follow(running.end, limit, Arc::clone(&control), end_sandbox, finish);
            Ok(Running { control, end, ..running })
        })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        Ok(self.link.files(&self.setup.directories.working_directory, self.places.clone()))
    }

    fn ports(&self) -> Result<Arc<dyn Ports>, Error> {
        Ok(self.link.ports())
    }

    fn isolation(&self) -> Option<String> {
        Some(self.isolation.clone())
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        Box::pin(async {
            let Some(most) = self.policy.limits.value(Limit::CpuTime) else {
                return std::future::pending().await;
            };
            let most = Duration::from_millis(most);
            loop {
                sleep(LOOK).await;
                if self.shared.usage().await.cpu_time.is_some_and(|used| used > most) {
                    return Limit::CpuTime;
                }
            }
        })
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.ended())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.paused.store(true, Ordering::SeqCst);
            Ok(self.link.pause()?)
        })
    }

    fn hold(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.link.pause()?) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            self.link.resume()?;
            self.paused.store(false, Ordering::SeqCst);
            Ok(())
        })
    }

    fn observe(&self) -> BoxFuture<'_, SandboxUsage> {
        Box::pin(self.shared.usage())
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let shared = Arc::clone(&self.shared);
            let mut kill = tokio::spawn(async move { shared.kill().await });
            // The engine answers once the container has ended, which the caller need not await.
            let _ = timeout(SENT, &mut kill).await;
        })
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async {
            let DockerSandbox { shared, link, .. } = *self;
            shared.kill().await;
            drop(link);
            let seen = shared.events.wait_for(REMOVED, |seen| seen.is_removed).await;
            if seen.is_removed {
                return Ok(());
            }
            match Arc::try_unwrap(shared) {
                Ok(Shared { container, .. }) => Ok(container.remove().await?),
                // A running task holds it, and its drop removes the container.
                Err(_) => Ok(()),
            }
        })
    }
}
