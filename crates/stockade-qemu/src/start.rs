//! Starts a machine and opens the link to its guest.
//!
//! ```text
//! jail ── initramfs ──▶ QEMU ── boot ──▶ ready ── plan, tools, copies ──▶ hello ──▶ linked
//! jail ───────────────▶ QEMU ── a saved state ──▶ ready ── the same ────▶ hello ──▶ linked
//!   └── QEMU's end, or a deadline ──▶ the jail is ended, error with the console's last lines
//! ```

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_core::future::BoxFuture;
use stockade_carrier::{Filter, Link, LinkSettings, Liveness};
use stockade_policy::Policy;
use stockade_provider::{
    Duplex, EntryProgram, Error, Execution, FilePath, FileWriteMode, FileWriting, Files, Gateway,
    Program, Provider, Root, Sandbox, SandboxRequest, StartNote, ToolAccess,
};
use stockade_wire::{MachinePlan, MachineReady, MachineStart, encode, read_message_within};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Join};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::compat::TokioAsyncReadCompatExt;

use crate::QemuError;
use crate::command::{Begin, Machine, PORT, QEMU, command};
use crate::console::Console;
use crate::jail::INITRAMFS;

/// How long a machine may take to boot. With TCG it takes about three seconds of one processor.
pub(crate) const MOST_BOOT: Duration = Duration::from_secs(45);
/// How long a saved machine may take to continue.
const MOST_CONTINUE: Duration = Duration::from_secs(20);
/// How often to ask whether QEMU listens yet: nothing reports it.
const LOOK: Duration = Duration::from_millis(5);
/// How much of a saved state is read at once.
const STEP_BYTES: usize = 1 << 20;

/// The maximum number of concurrent executions in one sandbox.
const EXECUTIONS: usize = 64;

/// How long QEMU may take to end, so that the console's last words are read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// QEMU in a wall, and what it boots.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) policy: Arc<Policy>,
    pub(crate) machine: Machine,
    pub(crate) initramfs: Arc<Vec<u8>>,
}

/// What makes a machine one sandbox. Nothing of it is in a machine that is saved.
pub(crate) struct Opening {
    pub(crate) plan: MachinePlan,
    pub(crate) tools: Vec<(String, Vec<u8>)>,
    /// The archives of the plan's copies.
    pub(crate) copies: Vec<u8>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) gateway: Option<Arc<dyn Gateway>>,
}

/// A machine whose guest answers.
pub(crate) struct Started {
    pub(crate) jail: Box<dyn Sandbox>,
    pub(crate) link: Link,
    pub(crate) qemu: Qemu,
    pub(crate) note: StartNote,
}

/// QEMU in its jail.
#[derive(Clone)]
pub(crate) struct Qemu {
    pub(crate) console: Console,
    ended: watch::Receiver<bool>,
}

impl Qemu {
    /// Waits until QEMU has ended and its console is read.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error means that the task is gone, and QEMU with it.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Waits a moment for the end, so that the console has the last words. Returns whether it came.
    pub(crate) async fn last_words(&self) -> bool {
        timeout(LAST_WORDS, self.ended()).await.is_ok()
    }

    /// Waits for something that the machine does. The error has the console's last lines.
    async fn awaited<T, E>(
        &self,
        most: Duration,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, QemuError> {
        let done = timeout(most, async {
            tokio::select! {
                biased;
                done = work => done.ok(),
                () = self.ended() => None,
            }
        });
        match done.await {
            Ok(Some(done)) => Ok(done),
            Ok(None) => {
                self.last_words().await;
                Err(QemuError::Boot { console: self.console.tail() })
            }
            Err(_) => Err(QemuError::Slow { limit: most, console: self.console.tail() }),
        }
    }
}

/// The machine's port: QEMU's standard output and input.
type Stream = Join<Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>>;

/// A machine that has booted, or continues. Nothing of a policy is in it.
pub(crate) struct Ready {
    pub(crate) jail: Box<dyn Sandbox>,
    pub(crate) qemu: Qemu,
    stream: Stream,
}

/// Boots a machine and makes it the sandbox of a policy.
pub(crate) async fn start(
    jail: &dyn Provider,
    prepared: &Prepared,
    opening: &Opening,
    most: Duration,
) -> Result<Started, QemuError> {
    let ready = boot(jail, prepared, Begin::Boot, None, most).await?;
    ready.open(opening, StartNote { how: "booted", because: None }).await
}

/// Continues a saved machine and makes it the sandbox of a policy.
pub(crate) async fn resume(
    jail: &dyn Provider,
    prepared: &Prepared,
    state: File,
    opening: &Opening,
) -> Result<Started, QemuError> {
    let ready = launched(jail, prepared, Begin::Continue, None).await?;
    let fed = match ready.jail.ports() {
        Ok(_) => ready.qemu.awaited(MOST_CONTINUE, feed(&*ready.jail, state)).await,
        Err(error) => Err(QemuError::jail(&error)),
    };
    let ready = ready.unless(fed).await?;
    ready.open(opening, StartNote { how: "continued", because: None }).await
}

/// Boots a machine until its guest is ready. `outlet` serves the socket through which its state can
/// leave the jail.
pub(crate) async fn boot(
    jail: &dyn Provider,
    prepared: &Prepared,
    begin: Begin,
    outlet: Option<Arc<dyn Gateway>>,
    most: Duration,
) -> Result<Ready, QemuError> {
    let mut ready = launched(jail, prepared, begin, outlet).await?;
    let mut stream = (&mut ready.stream).compat();
    let message = read_message_within::<MachineReady, _>(&mut stream, MachineReady::MAX_BYTES);
    let booted = ready.qemu.awaited(most, message).await;
    ready.unless(booted.map(|MachineReady {}| ())).await
}

/// Builds the jail and starts QEMU in it.
async fn launched(
    jail: &dyn Provider,
    prepared: &Prepared,
    begin: Begin,
    outlet: Option<Arc<dyn Gateway>>,
) -> Result<Ready, QemuError> {
    let request = SandboxRequest {
        policy: Arc::clone(&prepared.policy),
        root: Root::Standard,
        entry: EntryProgram::Program(QEMU.to_owned()),
        protected: Vec::new(),
        tools: outlet.as_ref().map(|_| ToolAccess::default()),
        gateway: outlet,
        authorities: None,
    };
    let jail = jail.create(&request).await.map_err(|error| QemuError::jail(&error))?;
    let launched = async {
        let in_jail = |error: Error| QemuError::jail(&error);
        if begin != Begin::Continue {
            let files = jail.files().map_err(in_jail)?;
            write(&*files, INITRAMFS, prepared.initramfs.to_vec()).await?;
        }
        let argv = command(&prepared.machine, begin);
        let running = jail.start(Execution::new(Program::Command { argv })).await;
        let running = running.map_err(in_jail)?;
        let console = Console::default();
        let reader = console.follow(running.stderr);
        let ended = followed(running.end, reader);
        let stream = tokio::io::join(running.stdout, running.stdin);
        Ok((Qemu { console, ended }, stream))
    };
    match launched.await {
        Ok((qemu, stream)) => Ok(Ready { jail, qemu, stream }),
        Err(error) => {
            // The first error is the one to report.
            let _ = jail.end().await;
            Err(error)
        }
    }
}

impl Ready {
    /// The same machine, unless something failed; then its jail is ended first.
    async fn unless(self, done: Result<(), QemuError>) -> Result<Ready, QemuError> {
        match done {
            Ok(()) => Ok(self),
            Err(error) => {
                // The first error is the one to report.
                let _ = self.jail.end().await;
                Err(error)
            }
        }
    }

    /// Sends what makes the machine one sandbox, and waits for the hello of its guest.
    async fn open(self, opening: &Opening, note: StartNote) -> Result<Started, QemuError> {
        let Ready { jail, qemu, mut stream } = self;
        let linked = async {
            let sent = async {
                send(&mut stream, opening).await?;
                stream.write_all(&opening.copies).await?;
                stream.flush().await
            };
            qemu.awaited(MOST_BOOT, sent).await?;
            let settings = LinkSettings { executions: EXECUTIONS, liveness: Liveness::PUMPED };
            let link = Link::open(stream, opening.gateway.clone(), settings)?;
            qemu.awaited(MOST_BOOT, link.hello()).await?;
            Ok(link.with_filters(opening.filters.clone()))
        };
        match linked.await {
            Ok(link) => Ok(Started { jail, link, qemu, note }),
            Err(error) => {
                // The first error is the one to report.
                let _ = jail.end().await;
                Err(error)
            }
        }
    }
}

/// Sends the frame before the link, with the present time and new random bytes, and the tools.
async fn send(stream: &mut Stream, opening: &Opening) -> std::io::Result<()> {
    let lengths = opening.tools.iter().map(|(path, bytes)| (path.clone(), bytes.len() as u64));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = MachineStart {
        plan: opening.plan.clone(),
        time_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        entropy: stockade_sys::random_bytes::<64>()?.to_vec(),
        tools: lengths.collect(),
    };
    stream.write_all(&encode(&start).map_err(std::io::Error::other)?).await?;
    for (_, content) in &opening.tools {
        stream.write_all(content).await?;
    }
    Ok(())
}

/// Sends a saved state to QEMU, once it listens.
async fn feed(jail: &dyn Sandbox, state: File) -> std::io::Result<()> {
    let ports = jail.ports().map_err(std::io::Error::other)?;
    let mut stream: Box<dyn Duplex> = loop {
        match ports.connect(PORT).await {
            Ok(stream) => break stream,
            Err(_) => sleep(LOOK).await,
        }
    };
    let mut state = BufReader::with_capacity(STEP_BYTES, tokio::fs::File::from_std(state));
    tokio::io::copy_buf(&mut state, &mut stream).await?;
    stream.shutdown().await
}

/// Follows QEMU to its end and its console to the last byte.
fn followed(
    end: BoxFuture<'static, Result<stockade_provider::ProcessEnd, Error>>,
    console: tokio::task::JoinHandle<()>,
) -> watch::Receiver<bool> {
    let (sender, ended) = watch::channel(false);
    tokio::spawn(async move {
        let _ = end.await;
        let _ = timeout(LAST_WORDS, console).await;
        let _ = sender.send(true);
    });
    ended
}

async fn write(files: &dyn Files, path: &str, content: Vec<u8>) -> Result<(), QemuError> {
    let path = FilePath::new(path.as_bytes().to_vec()).expect("the path is a constant");
    let how = FileWriting { mode: FileWriteMode::Create, executable: false };
    let content = Box::new(std::io::Cursor::new(content));
    let written = files.write(&path, how, content).await;
    written.map(|_| ()).map_err(|error| QemuError::jail(&error.into()))
}
