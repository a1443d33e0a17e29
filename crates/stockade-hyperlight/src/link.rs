//! The worker in its jail, and the frames to and from it.
//!
//! ```text
//! open ── LOAD ── READY ──▶ idle ── RUN ──▶ busy ── DONE, CLEAN ──▶ idle
//!   └── FAILED, its end, a deadline ──▶ the jail is ended
//! ```
//! Two tasks move frames, so that a caller may stop waiting at any point without tearing one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, Error, Execution, ExecutionControl, ProcessEnd, Program, Provider, Root, Sandbox,
    SandboxRequest,
};
use stockade_wasm::CompiledFile;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::HyperlightError;
use crate::functions::names;
use crate::jail::{self, BUFFER_MIB, HEAP_MIB};
use crate::protocol::{CLEAN, DONE, FAILED, LOAD, Load, MAX_FRAME, READY, STOP, head, parse_head};

/// How long a machine may take to start. With nested translation it takes some seconds.
const MOST_START: Duration = Duration::from_secs(60);
/// How long a machine may take to stop a program and to be clean again.
const MOST_STOP: Duration = Duration::from_secs(15);
/// How long the worker's last words may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The most bytes kept of a worker's standard error.
const MAX_WORDS: u64 = 2000;
/// How many frames wait for their reader.
const WAITING: usize = 4;
const MEBIBYTE: u64 = 1 << 20;

/// What a jail is built for.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) jail: Arc<dyn Provider>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) memory_mib: u64,
    /// The image that the jail shows. It stays on the disk for machines that are started later.
    _image: Option<Arc<CompiledFile>>,
}

/// How long the parts of a machine's life took, as its worker measured them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTimes {
    /// Starting the machine with its runtime.
    pub start: Duration,
    /// Loading the component.
    pub load: Duration,
    /// Taking the snapshot that every program starts from.
    pub snapshot: Duration,
    /// Restoring it after the last program, once one has run.
    pub restore: Option<Duration>,
}

/// One worker whose machine is ready.
pub(crate) struct WorkerLink {
    jail: Box<dyn Sandbox>,
    pub(crate) control: Arc<dyn ExecutionControl>,
    frames: mpsc::Receiver<(u8, Vec<u8>)>,
    to_worker: mpsc::Sender<(u8, Vec<u8>)>,
    ended: watch::Receiver<Option<String>>,
    pub(crate) times: MachineTimes,
}

impl WorkerLink {
    /// Builds a jail, starts a worker in it, and waits until its machine is ready.
    pub(crate) async fn open(wanted: &Wanted) -> Result<WorkerLink, HyperlightError> {
        let words = [jail::WORKER, "serve", jail::IMAGE];
        let (jail, mut running) = start(wanted, &words).await?;
        let (frames, to_worker) = (reading(running.stdout), writing(running.stdin));
        let mut link = WorkerLink {
            ended: followed(running.stderr, &mut running.end),
            jail,
            control: running.control,
            frames,
            to_worker,
            times: MachineTimes::default(),
        };
        let sizes = Load {
            memory: wanted.memory_mib.saturating_mul(MEBIBYTE),
            heap: HEAP_MIB * MEBIBYTE,
            buffer: BUFFER_MIB * MEBIBYTE,
            functions: names(),
        };
        // A worker that has ended is found below.
        let _ = link.send(LOAD, sizes.encode()).await;
        let failed = |reason: String| Err(HyperlightError::Start { reason });
        match timeout(MOST_START, link.receive()).await {
            Ok(Some((READY, content))) => {
                link.times = times(&content).unwrap_or_default();
                Ok(link)
            }
            Ok(Some((FAILED, why))) => failed(words_of(&why)),
            Ok(Some(_)) => failed("the worker does not speak as this version".to_owned()),
            Ok(None) => failed(link.last_words().await),
            Err(_) => failed(format!("it took longer than {} s", MOST_START.as_secs())),
        }
    }

    /// Sends a frame; false if the worker is gone.
    pub(crate) async fn send(&self, kind: u8, content: Vec<u8>) -> bool {
        self.to_worker.send((kind, content)).await.is_ok()
    }

    /// The next frame; `None` if the worker is gone.
    pub(crate) async fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        self.frames.recv().await
    }

    /// Whether the worker can still run programs.
    pub(crate) fn is_alive(&self) -> bool {
        self.ended.borrow().is_none() && !self.to_worker.is_closed()
    }

    /// Waits until the machine is clean after its program has ended.
    pub(crate) async fn cleaned(mut self) -> Option<WorkerLink> {
        match timeout(MOST_STOP, self.receive()).await {
            Ok(Some((CLEAN, content))) => {
                self.times.restore = words_of(&content).parse().ok().map(Duration::from_micros);
                Some(self)
            }
            _ => self.discard().await,
        }
    }

    /// Ends the running program and waits until the machine is clean.
    pub(crate) async fn stopped(mut self) -> Option<WorkerLink> {
        self.send(STOP, Vec::new()).await;
        let done = async {
            while let Some((kind, _)) = self.receive().await {
                if kind == DONE {
                    return true;
                }
            }
            false
        };
        match timeout(MOST_STOP, done).await {
            Ok(true) => self.cleaned().await,
            _ => self.discard().await,
        }
    }

    /// Ends the worker.
    async fn discard(self) -> Option<WorkerLink> {
        self.end().await;
        None
    }

    pub(crate) async fn end(self) {
        // Nothing of it is used again; a failed teardown is swept by the jail's next start.
        let _ = self.jail.end().await;
    }

    pub(crate) async fn pause(&self, paused: bool) {
        // A jail that cannot be paused keeps running: the machine's calls wait anyway.
        let _ = if paused { self.jail.pause().await } else { self.jail.resume().await };
    }

    /// Whether the kernel ended something of the jail for its memory.
    pub(crate) async fn ran_out_of_memory(&self) -> bool {
        self.jail.observe().await.oom_kills > 0
    }

    /// How the worker ended, with its standard error.
    pub(crate) async fn last_words(&self) -> String {
        let mut ended = self.ended.clone();
        let said = timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await;
        match said {
            Ok(Ok(said)) => said.clone().unwrap_or_default(),
            _ => "the worker closed its connection".to_owned(),
        }
    }
}

/// Runs a worker that only reports whether a machine starts.
pub(crate) async fn probe(wanted: &Wanted) -> Result<(), HyperlightError> {
    let (jail, running) = start(wanted, &[jail::WORKER, "probe"]).await?;
    drop(running.stdin);
    let mut end = running.end;
    let mut ended = followed(running.stderr, &mut end);
    let said = match timeout(MOST_START, ended.wait_for(Option::is_some)).await {
        Ok(Ok(said)) => said.clone().unwrap_or_default(),
        Ok(Err(_)) => "the worker is gone".to_owned(),
        Err(_) => format!("a trial machine did not start within {} s", MOST_START.as_secs()),
    };
    let _ = jail.end().await;
    match said.as_str() {
        WELL => Ok(()),
        why if is_permission(why) => Err(HyperlightError::Permission { reason: said }),
        _ => Err(HyperlightError::Kvm { reason: said }),
    }
}

/// Whether a worker could not open the device.
pub(crate) fn is_permission(words: &str) -> bool {
    words.contains("Permission denied") || words.contains("Operation not permitted")
}

/// How a worker ended that printed nothing.
const WELL: &str = "exit status 0";

async fn start(
    wanted: &Wanted,
    words: &[&str],
) -> Result<(Box<dyn Sandbox>, stockade_provider::Running), HyperlightError> {
    let request = SandboxRequest {
        policy: Arc::clone(&wanted.policy),
        root: Root::Standard,
        entry: EntryProgram::Program(jail::WORKER.to_owned()),
        protected: Vec::new(),
        gateway: None,
        tools: None,
        authorities: None,
    };
    let failed = |error: Error| HyperlightError::jail(&error);
    let jail = wanted.jail.create(&request).await.map_err(failed)?;
    let argv = words.iter().map(|word| (*word).to_owned()).collect();
    let mut execution = Execution::new(Program::Command { argv });
    execution.working_directory = Some("/".to_owned());
    let running = jail.start(execution).await.map_err(failed)?;
    Ok((jail, running))
}

fn times(content: &[u8]) -> Option<MachineTimes> {
    let text = words_of(content);
    let mut times = text.split(' ').map(|word| word.parse().ok().map(Duration::from_micros));
    let mut next = || times.next().flatten();
    Some(MachineTimes { start: next()?, load: next()?, snapshot: next()?, restore: None })
}

/// Text from a worker, short and without control characters.
pub(crate) fn words_of(content: &[u8]) -> String {
    let most = usize::try_from(MAX_WORDS).unwrap_or(usize::MAX).min(content.len());
    let text = String::from_utf8_lossy(&content[..most]);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Waits for a worker's end, and keeps its last output.
fn followed(
    stderr: Box<dyn AsyncRead + Send + Unpin>,
    end: &mut futures_core::future::BoxFuture<'static, Result<ProcessEnd, Error>>,
) -> watch::Receiver<Option<String>> {
    let (sender, ended) = watch::channel(None);
    let end = std::mem::replace(end, Box::pin(std::future::pending()));
    tokio::spawn(async move {
        let reader = tokio::spawn(async move {
            let mut said = Vec::new();
            let mut stderr = stderr;
            // What was read counts, whatever ended it.
            let _ = (&mut stderr).take(MAX_WORDS).read_to_end(&mut said).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            words_of(&said)
        });
        let end = match end.await {
            Ok(ProcessEnd::Exited { code }) => format!("exit status {code}"),
            Ok(ProcessEnd::Signaled { signal }) => format!("ended by signal {signal}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => stockade_provider::chain(&error),
        };
        let said = timeout(LAST_WORDS, reader).await;
        let said = said.ok().and_then(Result::ok).filter(|said| !said.is_empty());
        let _ = sender.send(Some(match said {
            Some(said) => said,
            None => end,
        }));
    });
    ended
}

fn reading(mut from: Box<dyn AsyncRead + Send + Unpin>) -> mpsc::Receiver<(u8, Vec<u8>)> {
    let (sender, frames) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let mut head = [0; 5];
            if from.read_exact(&mut head).await.is_err() {
                return;
            }
            let Some((kind, length)) = parse_head(head) else { return };
            let mut content = Vec::new();
            let most = u64::try_from(length).unwrap_or(u64::MAX);
            match (&mut from).take(most).read_to_end(&mut content).await {
                Ok(count) if count == length => {}
                _ => return,
            }
            if sender.send((kind, content)).await.is_err() {
                return;
            }
        }
    });
    frames
}

fn writing(mut to: Box<dyn AsyncWrite + Send + Unpin>) -> mpsc::Sender<(u8, Vec<u8>)> {
    let (sender, mut frames) = mpsc::channel::<(u8, Vec<u8>)>(WAITING);
    tokio::spawn(async move {
        while let Some((kind, content)) = frames.recv().await {
            debug_assert!(content.len() <= MAX_FRAME, "callers bound what they send");
            let Some(head) = head(kind, content.len()) else { return };
            let written = async {
                to.write_all(&head).await?;
                to.write_all(&content).await?;
                to.flush().await
            };
            if written.await.is_err() {
                return;
            }
        }
    });
    sender
}

/// The policy of a jail.
pub(crate) fn wanted(
    jail: &Arc<dyn Provider>,
    worker: &Path,
    image: Option<CompiledFile>,
    memory_mib: u64,
    cpu_millis: u64,
) -> Result<Wanted, HyperlightError> {
    let shown = image.as_ref().map(CompiledFile::path);
    let policy = Arc::new(jail::policy(worker, shown, memory_mib, cpu_millis)?);
    Ok(Wanted { jail: Arc::clone(jail), policy, memory_mib, _image: image.map(Arc::new) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_worker_are_microseconds_and_anything_else_is_none() {
        let [start, load, snapshot] = [1200, 35_000, 800].map(Duration::from_micros);
        let expected = MachineTimes { start, load, snapshot, restore: None };
        assert_eq!(times(b"1200 35000 800"), Some(expected));
        for other in [&b""[..], b"1 2", b"1 2 x", b"-1 2 3"] {
            assert_eq!(times(other), None, "{other:?}");
        }
    }
}
