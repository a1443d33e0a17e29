//! A wall for tests of the engine: it does what a test scripts and builds nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_core::future::BoxFuture;
use stockade_policy::{Control, Isolation, Limit};
use stockade_provider::{
    Ability, Error, ErrorKind, Execution, ExecutionControl, ExecutionId, ExecutionUsage, Files,
    Obstacle, Ports, Precision, Probe, ProcessEnd, ProgramKinds, Provider, ProviderName, Running,
    Sandbox, SandboxRequest, SandboxUsage, TerminalSize, WallFacts,
};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::watch;

/// The inner ends of a program's streams, and its kill switch.
pub(crate) struct Inside {
    pub(crate) stdin: DuplexStream,
    pub(crate) stdout: DuplexStream,
    pub(crate) stderr: DuplexStream,
    /// Resolves when the sandbox is killed.
    pub(crate) killed: watch::Receiver<bool>,
}

type Script = Box<dyn Fn(Inside) -> BoxFuture<'static, Result<ProcessEnd, Error>> + Send + Sync>;

/// A wall whose programs are closures.
pub(crate) struct Scripted {
    name: &'static str,
    unusable: Option<Obstacle>,
    isolation: Isolation,
    programs: ProgramKinds,
    /// The error with which building a sandbox fails.
    fails: Option<ErrorKind>,
    asked: Arc<AtomicUsize>,
    created: Arc<AtomicUsize>,
    ended: watch::Sender<bool>,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    observed: SandboxUsage,
    exceeds: Option<Limit>,
    /// Whether creating a sandbox hangs.
    hangs: bool,
    lost: bool,
}

impl Scripted {
    /// A wall that enforces everything with `process` isolation.
    pub(crate) fn named(name: &'static str) -> Scripted {
        let script: Script = Box::new(|_| Box::pin(async { Ok(ProcessEnd::Exited { code: 0 }) }));
        let shared = Shared {
            script,
            observed: SandboxUsage::default(),
            exceeds: None,
            hangs: false,
            lost: false,
        };
        let (asked, created, ended) = (Arc::default(), Arc::default(), watch::Sender::new(false));
        let isolation = Isolation::Process;
        let (unusable, fails, shared) = (None, None, Arc::new(shared));
        let programs = ProgramKinds::ALL;
        Scripted { name, unusable, isolation, programs, fails, asked, created, ended, shared }
    }

    /// A wall whose programs run `script`.
    pub(crate) fn running<F>(script: impl Fn(Inside) -> F + Send + Sync + 'static) -> Scripted
    where
        F: Future<Output = Result<ProcessEnd, Error>> + Send + 'static,
    {
        Scripted::named("scripted")
            .with(|shared| shared.script = Box::new(move |i| Box::pin(script(i))))
    }

    pub(crate) fn unusable(mut self) -> Scripted {
        let (reason, remedy) = ("it is a test".to_owned(), "none".to_owned());
        self.unusable = Some(Obstacle { reason, remedy });
        self
    }

    pub(crate) fn reduced(mut self) -> Scripted {
        self.isolation = Isolation::Reduced;
        self
    }

    /// A wall that runs only code.
    pub(crate) fn without_commands(mut self) -> Scripted {
        self.programs.commands = false;
        self.programs.contexts = false;
        self
    }

    /// A wall that probes as usable and fails to be built.
    pub(crate) fn failing(mut self, kind: ErrorKind) -> Scripted {
        self.fails = Some(kind);
        self
    }

    pub(crate) fn observing(self, observed: SandboxUsage) -> Scripted {
        self.with(|shared| shared.observed = observed)
    }

    pub(crate) fn exceeding(self, limit: Limit) -> Scripted {
        self.with(|shared| shared.exceeds = Some(limit))
    }

    /// A wall that never finishes building a sandbox.
    pub(crate) fn hanging(self) -> Scripted {
        self.with(|shared| shared.hangs = true)
    }

    /// A wall whose sandbox is lost when a program starts in it.
    pub(crate) fn losing(self) -> Scripted {
        self.with(|shared| shared.lost = true)
    }

    /// Becomes true when a sandbox is dropped.
    pub(crate) fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    pub(crate) fn times_asked(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.asked)
    }

    pub(crate) fn times_created(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.created)
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Scripted {
        change(Arc::get_mut(&mut self.shared).unwrap());
        self
    }
}

impl Provider for Scripted {
    fn name(&self) -> ProviderName {
        ProviderName::new(self.name)
    }

    fn facts(&self, _: Probe) -> BoxFuture<'_, WallFacts> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let precision = Precision::Exact;
        let ability = Ability::Enforced { mechanism: "a script".to_owned(), precision };
        let abilities: BTreeMap<_, _> =
            Control::all().into_iter().map(|control| (control, ability.clone())).collect();
        let (provider, unusable) = (self.name(), self.unusable.clone());
        let (isolation, programs) = (self.isolation, self.programs);
        let facts = WallFacts { provider, isolation, unusable, programs, abilities };
        Box::pin(async { facts })
    }

    fn create<'a>(
        &'a self,
        _: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        self.created.fetch_add(1, Ordering::SeqCst);
        if let Some(kind) = self.fails {
            return Box::pin(async move { Err(Error::new(kind, self.name)) });
        }
        let (shared, killed) = (Arc::clone(&self.shared), watch::Sender::new(false));
        let sandbox = ScriptedSandbox { shared, killed, ended: self.ended.clone() };
        Box::pin(async {
            if sandbox.shared.hangs {
                std::future::pending::<()>().await;
            }
            Ok(Box::new(sandbox) as Box<dyn Sandbox>)
        })
    }
}

struct ScriptedSandbox {
    shared: Arc<Shared>,
    killed: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

impl Drop for ScriptedSandbox {
    fn drop(&mut self) {
        self.ended.send_replace(true);
    }
}

impl Sandbox for ScriptedSandbox {
    fn start(&self, _: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        if self.shared.lost {
            return Box::pin(async { Err(Error::new(ErrorKind::Lost, "it is gone")) });
        }
        let ((stdin, far_in), (stdout, far_out), (stderr, far_err)) =
            (duplex(1 << 16), duplex(1 << 16), duplex(1 << 16));
        let killed = self.killed.subscribe();
        let end = (self.shared.script)(Inside {
            stdin: far_in,
            stdout: far_out,
            stderr: far_err,
            killed,
        });
        let end = tokio::spawn(end);
        let running = Running {
            id: ExecutionId(1),
            control: Arc::new(OfSandbox(self.killed.clone())),
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            end: Box::pin(async { end.await.unwrap() }),
        };
        Box::pin(async { Ok(running) })
    }

    fn files(&self) -> Result<Arc<dyn Files>, Error> {
        Err(Error::new(ErrorKind::Unenforceable, "the scripted wall has no operations on files"))
    }

    fn ports(&self) -> Result<Arc<dyn Ports>, Error> {
        Err(Error::new(ErrorKind::Unenforceable, "the scripted wall has no ports"))
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        match self.shared.exceeds {
            Some(limit) => Box::pin(async move { limit }),
            None => Box::pin(std::future::pending()),
        }
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn hold(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn observe(&self) -> BoxFuture<'_, SandboxUsage> {
        Box::pin(async { self.shared.observed.clone() })
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        self.killed.send_replace(true);
        Box::pin(async {})
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

/// Controls the one execution of a sandbox.
struct OfSandbox(watch::Sender<bool>);

impl ExecutionControl for OfSandbox {
    fn signal(&self, _: i32) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.0.send_replace(true);
        Box::pin(async { Ok(()) })
    }

    fn resize(&self, _: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async { ExecutionUsage::default() })
    }
}
