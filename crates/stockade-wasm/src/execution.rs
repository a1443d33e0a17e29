//! One execution: an instance of its own, on a thread of its own.
//!
//! ```text
//! started ── instantiated ── running ──▶ ended
//!    │                          ├── tick: kill, pause, processor time ──▶ ended
//!    └── not enough memory ─────┴── trap, exit, limit ──▶ ended
//! ```
//! The thread belongs to the host: a program that never returns is interrupted at every tick, and
//! dropping its instance ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use stockade_policy::{Denial, Limit};
use stockade_provider::{
    Error, ErrorKind, ExecutionControl, ExecutionUsage, ProcessEnd, TerminalSize,
};
use tokio::io::{AsyncRead, DuplexStream};
use tokio::sync::{oneshot, watch};
use wasmtime::component::ResourceTable;
use wasmtime::{Store, Trap, UpdateDeadline};
use wasmtime_wasi::cli::AsyncStdinStream;
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtx};

use crate::WasmError;
use crate::bindings::{Outcome, Program};
use crate::engine::{TICK, Ticking, engine};
use crate::files::OpenCount;
use crate::guest::Guest;
use crate::limits::{Budgets, InstanceLimits};
use crate::machine::{Machine, Run};
use crate::mounts::Mounts;
use crate::output::Output;
use crate::sandbox::RunPermit;
use crate::template::Template;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
/// Streams, pollables and directories that one instance may hold besides its open files.
const MAX_RESOURCES: usize = 20_000;

/// How much of its share a program that waits saves for later, as time of the host's clock.
const MOST_SAVED: Duration = Duration::from_millis(100);

/// The limits of one execution.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionLimits {
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// How much processor time it may use.
    pub cpu_time: Option<Duration>,
    /// Processor share of the sandbox, in thousandths.
    pub cpu_share: u64,
    /// How many files it may have open.
    pub open_files: u64,
}

/// The streams of one execution, on the side of the program.
pub(crate) struct Streams {
    pub(crate) stdin: DuplexStream,
    pub(crate) stdout: DuplexStream,
    pub(crate) stderr: DuplexStream,
}

/// What an execution used so far.
#[derive(Debug, Default)]
pub struct Meter {
    cpu: AtomicU64,
    memory: Mutex<Option<(Arc<AtomicU64>, Arc<AtomicBool>)>>,
    exceeded_cpu: AtomicBool,
}

impl Meter {
    /// Sets the processor time so far, and adds what is new to that of the sandbox.
    pub fn set_cpu_time(&self, budgets: &Budgets, time: Duration) {
        let now = nanoseconds(time);
        let before = self.cpu.swap(now, Ordering::SeqCst);
        budgets.cpu.fetch_add(now.saturating_sub(before), Ordering::SeqCst);
    }

    /// The cells for the most memory so far and for whether memory was refused.
    pub fn share_memory(&self, peak: Arc<AtomicU64>, refused: Arc<AtomicBool>) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some((peak, refused));
    }
}

/// The host's control of one execution.
pub(crate) struct WasmExecution {
    /// The wall's name.
    pub(crate) wall: &'static str,
    pub(crate) kill: watch::Sender<bool>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) denials: Arc<Mutex<Vec<Denial>>>,
}

impl ExecutionControl for WasmExecution {
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match signal {
                SIGKILL => self.kill().await,
                SIGTERM => {
                    let error = Error::new(ErrorKind::Invalid, self.no_signals());
                    Err(error.with_remedy("kill the program"))
                }
                _ => Err(Error::new(ErrorKind::Invalid, self.no_signals())),
            }
        })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.kill.send_replace(true);
        Box::pin(async { Ok(()) })
    }

    fn resize(&self, _: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Err(Error::new(ErrorKind::Invalid, "the program has no terminal")) })
    }

    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async {
            let memory = self.meter.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let refused =
                memory.as_ref().is_some_and(|(_, refused)| refused.load(Ordering::SeqCst));
            let peak = memory.map(|(peak, _)| peak.load(Ordering::SeqCst));
            let denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ExecutionUsage {
                cpu_time: Some(Duration::from_nanos(self.meter.cpu.load(Ordering::SeqCst))),
                memory_peak_bytes: peak,
                tasks_peak: Some(1),
                oom_kills: u64::from(refused),
                denials,
                ..ExecutionUsage::default()
            }
        })
    }
}

impl WasmExecution {
    fn no_signals(&self) -> String {
        format!("there are no signals behind the {} wall", self.wall)
    }
}

/// Runs a program on a thread of its own. The receiver gets its end.
pub(crate) fn spawn(
    machine: Arc<dyn Machine>,
    run: Run,
    kill: watch::Receiver<bool>,
    place: RunPermit,
) -> Result<oneshot::Receiver<Result<ProcessEnd, Error>>, WasmError> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("stockade-wasm".to_owned());
    let work = move || {
        let end = run_on_thread(&*machine, run, kill);
        drop(place);
        // The caller may have dropped the receiver.
        let _ = sender.send(end);
    };
    thread.spawn(work).map_err(|source| WasmError::Thread { source })?;
    Ok(receiver)
}

fn run_on_thread(
    machine: &dyn Machine,
    run: Run,
    mut kill: watch::Receiver<bool>,
) -> Result<ProcessEnd, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|source| WasmError::Thread { source })?;
    let limit = run.limits.timeout;
    let mut ended = run.calls.ended.clone();
    runtime.block_on(async {
        let timeout = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = kill.wait_for(|kill| *kill) => Ok(ProcessEnd::Signaled { signal: SIGKILL }),
            _ = ended.wait_for(|ended| *ended) => Ok(ProcessEnd::SandboxEnded { signal: Some(SIGKILL) }),
            () = timeout => Ok(ProcessEnd::LimitExceeded { limit: Limit::Timeout }),
            end = machine.run(run) => end,
        }
    })
}

/// Instances of the component in this process.
pub(crate) struct Instances(pub(crate) Arc<Template>);

impl Machine for Instances {
    fn wall(&self) -> &'static str {
        "wasm"
    }

    fn run(&self, run: Run) -> BoxFuture<'_, Result<ProcessEnd, Error>> {
        Box::pin(async move {
            let ticking = Ticking::start(engine()?)?;
            // Records the processor time also if the program is dropped.
            let _meter =
                AtTheEnd { meter: Arc::clone(&run.meter), budgets: Arc::clone(&run.budgets) };
            Ok(ticking.time(run_in_instance(&self.0, run)).await?)
        })
    }
}

struct AtTheEnd {
    meter: Arc<Meter>,
    budgets: Arc<Budgets>,
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.meter.set_cpu_time(&self.budgets, thread_time());
    }
}

/// Runs the program in a new instance.
async fn run_in_instance(template: &Template, run: Run) -> Result<ProcessEnd, WasmError> {
    let meter = Arc::clone(&run.meter);
    let most_memory = run.calls.policy.limits.value(Limit::Memory).unwrap_or(0);
    let (limits, paused, budgets) = (run.limits, run.paused.clone(), Arc::clone(&run.budgets));
    let (program, guest, outputs) = run.into_parts(MAX_RESOURCES, true)?;
    let refused = guest.limits.refused();
    meter.share_memory(guest.limits.peak(), Arc::clone(&refused));
    let mut store = Store::new(engine()?, guest);
    store.limiter(|guest| &mut guest.limits);
    store.set_epoch_deadline(1);
    let mut pace = Pace {
        meter: Arc::clone(&meter),
        start_cpu: budgets.cpu.load(Ordering::SeqCst),
        budgets: Arc::clone(&budgets),
        limits,
        paused,
        start: Instant::now(),
    };
    store.epoch_deadline_callback(move |_| pace.tick());
    let end = match template.python.instantiate_async(&mut store).await {
        Ok(instance) => instance.stockade_python_runner().call_execute(&mut store, &program).await,
        Err(_) if refused.load(Ordering::SeqCst) => {
            let own = store.data().limits.held();
            let others = budgets.memory.used().saturating_sub(own);
            return Err(match others >> 20 {
                0 => WasmError::TooLittleMemory { most: most_memory },
                used => WasmError::NoMemoryLeft { used, most: most_memory },
            });
        }
        Err(error) => return Err(WasmError::engine("instantiate the component", error)),
    };
    let starved = refused.load(Ordering::SeqCst);
    let end = end_of(end, starved, &meter);
    // The instance goes first: its memory is free when the end is seen.
    drop(store);
    outputs.finish().await;
    Ok(end)
}

/// What a program writes.
#[derive(Clone)]
pub struct Outputs {
    stdout: Output,
    stderr: Output,
}

impl Outputs {
    /// Writes what the program left.
    pub async fn finish(&self) {
        self.stdout.finish().await;
        self.stderr.finish().await;
    }
}

impl Run {
    /// Makes what an instance needs of the host. `counts_memory` is whether open files in memory
    /// count as open.
    pub(crate) fn into_parts(
        self,
        resources: usize,
        counts_memory: bool,
    ) -> Result<(Program, Guest, Outputs), WasmError> {
        let streams = self.streams;
        let outputs =
            Outputs { stdout: Output::new(streams.stdout), stderr: Output::new(streams.stderr) };
        let wasi = context(&self.mounts, streams.stdin, (&outputs.stdout, &outputs.stderr))?;
        let mut table = ResourceTable::new();
        table.set_max_capacity(resources);
        let guest = Guest {
            table,
            wasi,
            tree: self.tree,
            open: OpenCount { now: 0, most: self.limits.open_files, counts_memory },
            limits: InstanceLimits::new(self.budgets),
            calls: self.calls,
            tools: None,
        };
        Ok((self.program, guest, outputs))
    }
}

fn context(
    mounts: &Mounts,
    stdin: impl AsyncRead + Send + Sync + 'static,
    (stdout, stderr): (&Output, &Output),
) -> Result<WasiCtx, WasmError> {
    let mut builder = WasiCtx::builder();
    builder
        .stdin(AsyncStdinStream::new(stdin))
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        // The thread runs nothing else.
        .allow_blocking_current_thread(true)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    for mount in &mounts.directories {
        let perms = match mount.is_writable {
            true => FsPerms::ReadWrite,
            false => FsPerms::ReadOnly,
        };
        builder
            .preopened_dir(&mount.host, &mount.guest, perms)
            .map_err(|source| WasmError::engine("open a directory of the policy", source))?;
    }
    Ok(builder.build())
}

/// How a program ended whose interpreter returned. `starved` is whether memory was refused.
pub fn end_of_outcome(outcome: &Outcome, starved: bool) -> ProcessEnd {
    match outcome {
        Outcome::Finished => ProcessEnd::Exited { code: 0 },
        Outcome::Exited(code) => ProcessEnd::Exited { code: *code },
        Outcome::Raised(uncaught) if starved && uncaught.kind == "MemoryError" => {
            ProcessEnd::LimitExceeded { limit: Limit::Memory }
        }
        Outcome::Raised(_) => ProcessEnd::Exited { code: 1 },
    }
}

/// How a program ended.
fn end_of(end: wasmtime::Result<Outcome>, starved: bool, meter: &Meter) -> ProcessEnd {
    let out_of_memory = ProcessEnd::LimitExceeded { limit: Limit::Memory };
    let error = match end {
        Ok(outcome) => return end_of_outcome(&outcome, starved),
        Err(error) => error,
    };
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return ProcessEnd::Exited { code: exit.0 };
    }
    if meter.exceeded_cpu.load(Ordering::SeqCst) {
        return ProcessEnd::OutOfFuel;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => {
            ProcessEnd::Trapped { reason: "call stack exhausted".to_owned() }
        }
        // CPython aborts if not even its exception fits.
        Some(Trap::UnreachableCodeReached) if starved => out_of_memory,
        Some(trap) => ProcessEnd::Trapped { reason: trap.to_string() },
        None => ProcessEnd::Trapped { reason: error.root_cause().to_string() },
    }
}

/// What is checked at every tick of a running program.
struct Pace {
    meter: Arc<Meter>,
    budgets: Arc<Budgets>,
    limits: ExecutionLimits,
    paused: watch::Receiver<bool>,
    start: Instant,
    start_cpu: u64,
}

impl Pace {
    fn tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        let used = thread_time();
        self.meter.set_cpu_time(&self.budgets, used);
        if self.limits.cpu_time.is_some_and(|most| used > most) {
            self.meter.exceeded_cpu.store(true, Ordering::SeqCst);
            return Ok(UpdateDeadline::Interrupt);
        }
        if *self.paused.borrow() {
            let mut paused = self.paused.clone();
            return Ok(UpdateDeadline::YieldCustom(
                1,
                Box::pin(async move {
                    // An error means that the sandbox is gone, which ends the program anyway.
                    let _ = paused.wait_for(|paused| !*paused).await;
                }),
            ));
        }
        Ok(match self.ahead() {
            Some(ahead) => UpdateDeadline::YieldCustom(1, Box::pin(tokio::time::sleep(ahead))),
            None => UpdateDeadline::Yield(1),
        })
    }

    /// How long the sandbox must rest to keep its share of a processor.
    fn ahead(&mut self) -> Option<Duration> {
        let used = self.budgets.cpu.load(Ordering::SeqCst).saturating_sub(self.start_cpu);
        let due = Duration::from_nanos(used.saturating_mul(1000) / self.limits.cpu_share.max(1));
        let elapsed = self.start.elapsed();
        // What a context did not use while it waited for a call is not saved for that call.
        if let Some(unused) = elapsed.checked_sub(due + MOST_SAVED) {
            self.start += unused;
            return None;
        }
        due.checked_sub(elapsed).filter(|ahead| *ahead > TICK)
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
