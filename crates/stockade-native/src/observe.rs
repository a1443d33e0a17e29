//! Measures from outside what a sandbox uses and which limits it reaches.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use stockade_carrier::Link;
use stockade_cgroup::Group;
use stockade_image::Denials;
use stockade_policy::{Limit, Policy};
use stockade_provider::{ExecutionUsage, SandboxUsage};
use stockade_watchdog::{Action, Aside, Bounds, Look, Measurement, Meter, Order, Watchdog};
use tokio::sync::watch;

use crate::facts_cache::blocking;
use crate::leaves::{Leaf, Leaves};
use crate::process_tree::{self, measure};
use crate::programs::Programs;
use crate::reduced::ScratchDirectory;

/// How often to measure what the kernel does not enforce by itself.
const INTERVAL: Duration = Duration::from_millis(20);

/// The same while no program runs: then only an interpreter that waits for code uses anything.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// Every so many measurements include the scratch directory, which takes longer to add up.
const DIRECTORY_LOOKS: u32 = 5;

/// How long to wait for a measurement: during the run, and before the end of a sandbox.
const LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// How long a measurement may fail before the sandbox is ended. Only the exact memory count can
/// block for so long, and it runs only if an estimate exceeds the limit.
const BLIND: Duration = Duration::from_secs(5);

/// The sources of a sandbox's measurements.
pub(crate) struct Watched {
    /// The root of its tmpfs; `None` once the sandbox is dropped.
    pub(crate) scratch: Mutex<Option<OwnedFd>>,
    /// Measures what neither the kernel nor a cgroup counts; `None` if they count everything.
    pub(crate) aside: Option<Aside>,
    /// Whether a host directory replaces the tmpfs.
    pub(crate) has_directory: bool,
    /// Set if the policy has a `command_allowlist`.
    pub(crate) programs: Option<Programs>,
    /// The denied commands that stubs reported, if the root is the hardened image.
    pub(crate) denials: Option<Arc<Denials>>,
    /// `None` once the sandbox is dropped.
    pub(crate) group: Mutex<Option<Group>>,
    /// The leaves of executions, if there is a group.
    pub(crate) leaves: Option<Arc<Leaves>>,
    pub(crate) policy: Arc<Policy>,
    /// Whether a cgroup enforces the memory limit, and the CPU limit.
    pub(crate) memory_held: bool,
    pub(crate) cpu_held: bool,
    /// Whether the kernel enforces the process limit.
    pub(crate) pids_held: bool,
    /// The usage before a kill: soon after it the launcher removes the cgroups with their counters.
    pub(crate) before_kill: OnceLock<SandboxUsage>,
    /// Maxima of what only periodic measurements see.
    pub(crate) seen: Mutex<Seen>,
    /// How many programs run.
    pub(crate) running: watch::Sender<usize>,
    /// Whether the caller has stopped programs.
    pub(crate) held: AtomicBool,
    /// Whether none may start either.
    pub(crate) paused: AtomicBool,
    /// What enforces limits from here. Of those who wait for a limit one drives it at a time.
    pub(crate) driver: tokio::sync::Mutex<Driver>,
    /// The limit that the last driver found exceeded.
    pub(crate) found: watch::Sender<Option<Limit>>,
}

/// The state of the watchdog, which outlives the wait of one program: the next one continues what
/// is paused, and goes on counting.
#[derive(Default)]
pub(crate) struct Driver {
    watchdog: Option<Watchdog>,
    paused: bool,
}

/// Measures a sandbox's processes, if no cgroup limits them, and its scratch directory.
pub(crate) struct HostMeter {
    /// The first process inside.
    pub(crate) first: Pid,
    pub(crate) bounds: Option<process_tree::Bounds>,
    pub(crate) directory: Option<ScratchDirectory>,
    pub(crate) policy: Arc<Policy>,
    /// The number of measurements so far.
    pub(crate) looks: u32,
}

impl Meter for HostMeter {
    fn look(&mut self) -> Look {
        let is_turn = self.looks.is_multiple_of(DIRECTORY_LOOKS);
        self.looks = self.looks.wrapping_add(1);
        let in_turn = self.directory.as_ref().filter(|_| is_turn);
        Look {
            measured: self.bounds.and_then(|bounds| measure(self.first, bounds).ok()),
            exceeded: in_turn.and_then(|directory| directory.exceeds(&self.policy)),
        }
    }
}

/// The maxima of all measurements so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Limits of the scratch space that were used up.
    full: BTreeSet<Limit>,
    /// Maximum memory and tasks, if no cgroup counts them.
    memory_bytes: Option<u64>,
    tasks: Option<u64>,
    cpu_time: Option<Duration>,
}

impl Watched {
    /// The usage saved before a kill, otherwise the current usage. Blocks.
    pub(crate) fn observe(&self) -> SandboxUsage {
        self.before_kill.get().cloned().unwrap_or_else(|| self.look())
    }

    /// Saves the current usage before a kill is sent; later calls change nothing. Blocks.
    pub(crate) fn keep(&self) {
        if let Some(leaves) = &self.leaves {
            leaves.keep();
        }
        self.before_kill.get_or_init(|| self.look());
    }

    /// What the execution of a leaf used. Blocks.
    pub(crate) fn of_execution(&self, leaf: &Leaf) -> ExecutionUsage {
        let mut used = leaf.usage();
        let denials = self.programs.iter().flat_map(|programs| programs.denials_of(leaf.number));
        used.denials = denials.collect();
        used
    }

    /// Takes the cgroup and the scratch descriptor out of a sandbox that is about to end.
    pub(crate) fn take(&self) -> (Option<Group>, Option<OwnedFd>) {
        (lock(&self.group).take(), lock(&self.scratch).take())
    }

    /// The current usage. Fields that the kernel does not report stay empty.
    fn look(&self) -> SandboxUsage {
        let mut observation = SandboxUsage::default();
        let removed = self.leaves.as_ref().map(|leaves| leaves.removed()).unwrap_or_default();
        if let Some(group) = &*lock(&self.group) {
            observation.memory_bytes = group.memory_used().ok();
            observation.memory_peak_bytes = group.memory_peak().ok();
            observation.tasks_peak = group.pids_peak().ok();
            observation.oom_kills = group.oom_kills().unwrap_or(0) + removed.oom_kills;
            if group.pids_hit().is_ok_and(|refused| refused + removed.pids_hit > 0) {
                observation.limits_hit.insert(Limit::Pids);
            }
        }
        let look = self.aside.as_ref().and_then(|aside| aside.look(LAST_LOOK));
        let measured = look.and_then(|look| look.measured);
        let seen = self.see(measured.as_ref());
        let now = measured.map(|measured| measured.memory_bytes + self.scratch_bytes());
        observation.memory_bytes = observation.memory_bytes.or(now);
        observation.cpu_time = self.cpu_time(&seen);
        observation.memory_peak_bytes = observation.memory_peak_bytes.or(seen.memory_bytes);
        observation.tasks_peak = observation.tasks_peak.or(seen.tasks);
        let most = self.policy.limits.value(Limit::Pids).unwrap_or(u64::MAX);
        // `tasks` includes the guest, so one above `most` means that the limit is reached.
        if seen.tasks.is_some_and(|tasks| tasks > most) {
            observation.limits_hit.insert(Limit::Pids);
        }
        observation.limits_hit.extend(seen.full);
        observation.denials.extend(self.programs.iter().flat_map(Programs::denials));
        observation.denials.extend(self.denials.iter().flat_map(|denials| denials.all()));
        observation
    }

    /// Adds a measurement to the maxima.
    fn see(&self, measured: Option<&Measurement>) -> Seen {
        let mut seen = lock(&self.seen);
        let space = lock(&self.scratch).as_ref().and_then(|it| rustix::fs::fstatvfs(it).ok());
        if let Some(space) = space {
            if space.f_bfree == 0 {
                seen.full.insert(Limit::Disk);
            }
            if space.f_ffree == 0 {
                seen.full.insert(Limit::Inodes);
            }
        }
        if let Some(measured) = measured {
            let memory = measured.memory_bytes + self.scratch_bytes();
            seen.memory_bytes = seen.memory_bytes.max(Some(memory));
            seen.tasks = seen.tasks.max(Some(measured.tasks));
            seen.cpu_time = seen.cpu_time.max(Some(measured.cpu_time));
        }
        seen.clone()
    }

    /// Resolves when the sandbox exceeds a limit that the kernel does not enforce. The session and
    /// each of its programs wait for that at the same time.
    pub(crate) async fn exceeded(self: &Arc<Self>, link: &Link) -> Limit {
        let mut found = self.found.subscribe();
        let driving = async {
            let limit = self.drive(&mut *self.driver.lock().await, link).await;
            self.found.send_replace(Some(limit));
            limit
        };
        let others = async {
            loop {
                // Never closed: this sandbox has the sender.
                let _ = found.changed().await;
                let limit = *found.borrow_and_update();
                if let Some(limit) = limit {
                    return limit;
                }
            }
        };
        tokio::select! {
            limit = driving => limit,
            limit = others => limit,
        }
    }

    async fn drive(self: &Arc<Self>, driver: &mut Driver, link: &Link) -> Limit {
        let cpu_time = self.policy.limits.value(Limit::CpuTime).map(Duration::from_millis);
        let Driver { watchdog, paused } = driver;
        let watchdog = watchdog.get_or_insert_with(|| self.watchdog());
        let mut pause = INTERVAL;
        if !self.needs_looks() {
            std::future::pending::<()>().await;
        }
        let mut running = self.running.subscribe();
        loop {
            let is_idle = *running.borrow() == 0 && !*paused;
            match is_idle {
                // Hundreds of idle sandboxes must not keep a processor busy.
                true => {
                    let started = running.wait_for(|running| *running > 0);
                    let _ = tokio::time::timeout(IDLE_INTERVAL, started).await;
                }
                false => tokio::time::sleep(pause).await,
            }
            let watched = Arc::clone(self);
            let (measured, exceeded) = blocking(move || watched.look_in_time(cpu_time)).await;
            if let Some(limit) = exceeded {
                return limit;
            }
            let Some(measured) = measured else { continue };
            let memory_bytes = measured.memory_bytes + self.scratch_bytes();
            let used = Measurement { memory_bytes, ..measured };
            match watchdog.decide(Instant::now(), &used) {
                Order::End(limit) => return limit,
                Order::Continue(action, look_again) => {
                    let wanted = action == Action::Pause;
                    // What the caller stopped stays so: a checkpoint may be reading its files.
                    if wanted != *paused && !self.held.load(Ordering::SeqCst) {
                        // Fails only on a closed link, whose sandbox has ended.
                        let _ = if wanted { link.pause() } else { link.resume() };
                        *paused = wanted;
                    }
                    pause = look_again;
                }
            }
        }
    }

    /// Measures once, and returns the limit that is exceeded, if any. Blocks.
    fn look_in_time(&self, cpu_time: Option<Duration>) -> (Option<Measurement>, Option<Limit>) {
        let look = self.aside.as_ref().and_then(|aside| aside.look(LOOK));
        if self.aside.as_ref().is_some_and(|aside| aside.overdue() > BLIND) {
            return (None, Some(Limit::Memory));
        }
        let exceeded = look.as_ref().and_then(|look| look.exceeded);
        let measured = look.and_then(|look| look.measured);
        let seen = self.see(measured.as_ref());
        let is_over = cpu_time.zip(self.cpu_time(&seen)).is_some_and(|(most, used)| used >= most);
        (measured, if is_over { Some(Limit::CpuTime) } else { exceeded })
    }

    /// Whether anything needs periodic measurements.
    fn needs_looks(&self) -> bool {
        let counts_cpu_time = self.policy.limits.value(Limit::CpuTime).is_some();
        counts_cpu_time
            || lock(&self.scratch).is_some()
            || self.has_directory
            || !self.memory_held
            || !self.cpu_held
    }

    /// A watchdog for the limits that neither the kernel nor a cgroup enforces.
    fn watchdog(&self) -> Watchdog {
        let bounds = Bounds {
            tasks: (!self.pids_held).then(|| most_tasks(&self.policy)),
            memory_bytes: (!self.memory_held).then(|| most_memory(&self.policy)),
            cpus_millis: self.policy.limits.value(Limit::Cpu).filter(|_| !self.cpu_held),
        };
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Watchdog::new(bounds, u32::try_from(processors).unwrap_or(u32::MAX))
    }

    fn cpu_time(&self, seen: &Seen) -> Option<Duration> {
        let counted = lock(&self.group).as_ref().and_then(|group| group.cpu_time().ok());
        counted.or(seen.cpu_time)
    }

    /// The bytes that files on the tmpfs use.
    fn scratch_bytes(&self) -> u64 {
        let space = lock(&self.scratch).as_ref().and_then(|it| rustix::fs::fstatvfs(it).ok());
        space.map_or(0, |space| (space.f_blocks - space.f_bfree) * space.f_frsize)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No critical section leaves the value inconsistent, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limits of a sandbox's process tree.
pub(crate) fn bounds(policy: &Policy) -> process_tree::Bounds {
    process_tree::Bounds { tasks: most_tasks(policy), memory_bytes: most_memory(policy) }
}

/// The process limit, plus one for the guest.
fn most_tasks(policy: &Policy) -> u64 {
    policy.limits.value(Limit::Pids).map_or(u64::MAX, |most| most + 1)
}

fn most_memory(policy: &Policy) -> u64 {
    policy.limits.value(Limit::Memory).unwrap_or(0) << 20
}
