//! One sandbox: files, budgets, and the executions that share them.
//!
//! ```text
//! ready ── start ──▶ running, several at once ── its end ──▶ ready
//!   └── kill, drop or end ──▶ ending ── every thread has ended ──▶ gone
//! ```

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::future::BoxFuture;
use stockade_policy::{Denial, Limit, Policy, WORKSPACE};
use stockade_provider::{
    Error, ErrorKind, Execution, ExecutionId, Files, Gateway, Language, Program, Running, Sandbox,
    SandboxUsage, Stdio,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::bindings::{self, Variable};
use crate::execution::{ExecutionLimits, Meter, Streams, WasmExecution, spawn};
use crate::files::{Tree, WasmFiles};
use crate::guest::HostCalls;
use crate::limits::Budgets;
use crate::machine::{Machine, Run};
use crate::mounts::Mounts;

/// The most executions of one sandbox at once, each with a thread of the host.
const MOST_RUNNING: usize = 32;
/// The most bytes of code.
pub(crate) const MAX_CODE: usize = 10 << 20;
/// How many bytes of output wait for their reader.
const PIPE_BYTES: usize = 64 << 10;

/// One running sandbox.
pub(crate) struct WasmSandbox {
    machine: Arc<dyn Machine>,
    policy: Arc<Policy>,
    tree: Arc<Tree>,
    mounts: Arc<Mounts>,
    budgets: Arc<Budgets>,
    gateway: Option<Arc<dyn Gateway>>,
    has_tools: bool,
    streams: Arc<AtomicUsize>,
    denials: Arc<Mutex<Vec<Denial>>>,
    ended: watch::Sender<bool>,
    paused: watch::Sender<bool>,
    /// How many executions run.
    running: watch::Sender<usize>,
    starts: AtomicU64,
}

impl WasmSandbox {
    pub(crate) fn new(
        machine: Arc<dyn Machine>,
        policy: Arc<Policy>,
        (tree, mounts): (Tree, Mounts),
        (gateway, has_tools): (Option<Arc<dyn Gateway>>, bool),
    ) -> WasmSandbox {
        WasmSandbox {
            machine,
            policy,
            budgets: Arc::clone(&tree.budgets),
            tree: Arc::new(tree),
            mounts: Arc::new(mounts),
            gateway,
            has_tools,
            streams: Arc::default(),
            denials: Arc::default(),
            ended: watch::Sender::new(false),
            paused: watch::Sender::new(false),
            running: watch::Sender::new(0),
            starts: AtomicU64::new(0),
        }
    }

    fn limits(&self, execution: &Execution) -> ExecutionLimits {
        let value = |limit| self.policy.limits.value(limit);
        ExecutionLimits {
            timeout: execution.timeout,
            cpu_time: value(Limit::CpuTime).map(std::time::Duration::from_millis),
            cpu_share: value(Limit::Cpu).unwrap_or(u64::MAX),
            open_files: value(Limit::OpenFiles).unwrap_or(u64::MAX),
        }
    }

    fn begin(&self, execution: Execution) -> Result<Running, Error> {
        if *self.ended.borrow() {
            return Err(Error::new(ErrorKind::Lost, "the sandbox has ended"));
        }
        if *self.paused.borrow() {
            let error = Error::new(ErrorKind::Busy, "the sandbox is paused");
            return Err(error.with_remedy("resume it first"));
        }
        let limits = self.limits(&execution);
        let program = program(execution, self.has_tools, self.machine.wall())?;
        let place = RunPermit::take(&self.running)?;
        let (stdin, program_stdin) = tokio::io::duplex(PIPE_BYTES);
        let (stdout, program_stdout) = tokio::io::duplex(PIPE_BYTES);
        let (stderr, program_stderr) = tokio::io::duplex(PIPE_BYTES);
        let denials: Arc<Mutex<Vec<Denial>>> = Arc::default();
        let meter: Arc<Meter> = Arc::default();
        let run = Run {
            program,
            meter: Arc::clone(&meter),
            tree: Arc::clone(&self.tree),
            mounts: Arc::clone(&self.mounts),
            budgets: Arc::clone(&self.budgets),
            calls: HostCalls {
                gateway: self.gateway.clone(),
                runtime: Handle::current(),
                policy: Arc::clone(&self.policy),
                ended: self.ended.subscribe(),
                streams: Arc::clone(&self.streams),
                denials: Arc::clone(&denials),
            },
            limits,
            paused: self.paused.subscribe(),
            streams: Streams {
                stdin: program_stdin,
                stdout: program_stdout,
                stderr: program_stderr,
            },
        };
        let (kill, killed) = watch::channel(false);
        let end = spawn(Arc::clone(&self.machine), run, killed, place)?;
        let (of_sandbox, of_execution) = (Arc::clone(&self.denials), Arc::clone(&denials));
        let control = Arc::new(WasmExecution { wall: self.machine.wall(), kill, meter, denials });
        Ok(Running {
            id: ExecutionId(self.starts.fetch_add(1, Ordering::SeqCst)),
            control,
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            end: Box::pin(async move {
                let end = end.await;
                let own = of_execution.lock().unwrap_or_else(PoisonError::into_inner).clone();
                of_sandbox.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
                // A thread that ends without a report has panicked.
                end.unwrap_or_else(|_| {
                    Err(Error::new(ErrorKind::Lost, "the program's thread is gone"))
                })
            }),
        })
    }
}

/// One of the executions that may run at once. Dropping it makes room for another.
pub(crate) struct RunPermit(watch::Sender<usize>);

impl RunPermit {
    fn take(running: &watch::Sender<usize>) -> Result<RunPermit, Error> {
        let mut is_taken = false;
        running.send_modify(|count| {
            is_taken = *count < MOST_RUNNING;
            *count += usize::from(is_taken);
        });
        if is_taken {
            return Ok(RunPermit(running.clone()));
        }
        let error = Error::new(
            ErrorKind::Busy,
            format!("{MOST_RUNNING} programs run in this sandbox already"),
        );
        Err(error.with_remedy("wait until one of them has ended"))
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The program as the component takes it.
fn program(execution: Execution, tools: bool, wall: &str) -> Result<bindings::Program, Error> {
    let invalid =
        |text: String, remedy: &str| Err(Error::new(ErrorKind::Invalid, text).with_remedy(remedy));
    if let Stdio::Terminal(_) = execution.stdio {
        return invalid(
            format!("the {wall} wall has no terminals"),
            "run the program without a terminal",
        );
    }
    let (name, code, arguments) = match execution.program {
        Program::Code { language: Language::Python, name, code, arguments } => {
            (name, code, arguments)
        }
        Program::Code { language, .. } => {
            let text = format!("the {wall} wall runs python code, and not {language}");
            return invalid(text, "use another wall for it");
        }
        Program::Command { argv } => {
            let name = argv.first().map_or("", String::as_str);
            let text = format!("the {wall} wall starts no commands, so not {name:?}");
            return invalid(text, "run python code, or use another wall");
        }
    };
    if code.len() > MAX_CODE {
        let text = format!("the code has {} bytes, and at most {MAX_CODE} run", code.len());
        return invalid(text, "pass the data in a file");
    }
    let environment = execution.environment.into_iter();
    Ok(bindings::Program {
        code,
        name,
        arguments,
        environment: environment.map(|(name, value)| Variable { name, value }).collect(),
        working_directory: execution.working_directory.unwrap_or_else(|| WORKSPACE.to_owned()),
        tools,
    })
}

impl Sandbox for WasmSandbox {
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(async { self.begin(execution) })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        let (tree, mounts) = (Arc::clone(&self.tree), Arc::clone(&self.mounts));
        Ok(Arc::new(WasmFiles::new(tree, mounts, &self.policy)))
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        // Every limit is enforced where the resource is used.
        Box::pin(std::future::pending())
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        let mut ended = self.ended.subscribe();
        Box::pin(async move {
            // An error means that the sandbox is gone.
            let _ = ended.wait_for(|ended| *ended).await;
        })
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.paused.send_replace(true);
        Box::pin(async { Ok(()) })
    }

    fn hold(&self) -> BoxFuture<'_, Result<(), Error>> {
        // The memory and the streams of an instance are its own from its first moment.
        Box::pin(async { Ok(()) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.paused.send_replace(false);
        Box::pin(async { Ok(()) })
    }

    fn observe(&self) -> BoxFuture<'_, SandboxUsage> {
        Box::pin(async {
            let denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let disk = [Limit::Disk, Limit::Inodes]
                .into_iter()
                .zip([&self.budgets.disk, &self.budgets.inodes]);
            let hit = disk.filter(|(_, budget)| budget.has_refused()).map(|(limit, _)| limit);
            SandboxUsage {
                cpu_time: Some(self.budgets.cpu_time()),
                memory_bytes: Some(self.budgets.memory.used()),
                memory_peak_bytes: Some(self.budgets.memory.peak()),
                tasks_peak: Some(1),
                oom_kills: u64::from(self.budgets.memory.has_refused()),
                limits_hit: hit.collect(),
                denials,
            }
        })
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        self.ended.send_replace(true);
        Box::pin(async {})
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.ended.send_replace(true);
            let mut running = self.running.subscribe();
            // The sandbox holds the sender, so waiting cannot fail.
            let _ = running.wait_for(|running| *running == 0).await;
            self.machine.end().await;
            Ok(())
        })
    }
}

impl Drop for WasmSandbox {
    fn drop(&mut self) {
        self.ended.send_replace(true);
    }
}
