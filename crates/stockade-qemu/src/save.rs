//! Saves a machine that has booted, as a file.
//!
//! ```text
//! boot ── ready ── migrate ──▶ QEMU ══ state ══▶ the socket for tools ══▶ file ──▶ hashed, kept
//!    └── a machine that does not boot is an error; everything else only a reason to go without
//! ```
//! The jail of this machine has a monitor and a socket that leads out. It ends before any program
//! of a caller starts.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use stockade_provider::{
    Carried, Destination, Duplex, Gateway, Provider, Sandbox, ToolAccess, chain,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::QemuError;
use crate::command::{Begin, PORT};
use crate::start::{MOST_BOOT, Prepared, boot};

/// How long QEMU may take to write its state.
const MOST_SAVE: Duration = Duration::from_secs(60);
/// How often to ask whether it is written.
const LOOK: Duration = Duration::from_millis(10);
/// The longest line of the monitor.
const MOST_LINE: u64 = 1 << 20;
/// How much more than its memory the state of a machine may be.
const OTHER_STATE_BYTES: u64 = 64 << 20;
/// QEMU's own limit is for links between hosts.
const BYTES_PER_SECOND: u64 = 8 << 30;
const STEP_BYTES: usize = 1 << 20;

/// Boots a machine and writes its state to `file`. The inner error is the reason why it was not
/// saved.
pub(crate) async fn save(
    jail: &dyn Provider,
    prepared: &Prepared,
    file: File,
) -> Result<Result<(), String>, QemuError> {
    let most = (prepared.machine.memory_mib << 20) + OTHER_STATE_BYTES;
    let (outlet, written) = Outlet::new(file, most);
    let ready =
        boot(jail, prepared, Begin::BootWithMonitor, Some(Arc::new(outlet)), MOST_BOOT).await?;
    let saved = timeout(MOST_SAVE, migrate(&*ready.jail, written)).await;
    let ended = ready.jail.end().await.map_err(|error| QemuError::jail(&error));
    let saved = saved.unwrap_or_else(|_| {
        Err(format!("QEMU did not write its state within {} s", MOST_SAVE.as_secs()))
    });
    ended.map(|()| saved)
}

/// Makes QEMU write the state of its machine, and waits for the end.
async fn migrate(
    jail: &dyn Sandbox,
    written: oneshot::Receiver<io::Result<u64>>,
) -> Result<(), String> {
    let ports = jail.ports().map_err(|error| chain(&error))?;
    let stream = ports.connect(PORT).await.map_err(|error| chain(&error))?;
    let mut monitor = Monitor { stream: BufReader::new(stream) };
    monitor.ask("qmp_capabilities", json!({})).await?;
    let fast = json!({ "max-bandwidth": BYTES_PER_SECOND });
    monitor.ask("migrate-set-parameters", fast).await?;
    let to = json!({ "uri": format!("unix:{}", ToolAccess::SOCKET) });
    monitor.ask("migrate", to).await?;
    loop {
        let state = monitor.ask("query-migrate", json!({})).await?;
        match state["status"].as_str() {
            Some("completed") => break,
            Some("failed" | "cancelled") => {
                let reason = state["error-desc"].as_str().unwrap_or("it names no reason");
                return Err(format!("QEMU could not write its state: {reason}"));
            }
            _ => sleep(LOOK).await,
        }
    }
    match written.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("cannot keep the machine's state: {error}")),
        Err(_) => Err("the machine's state did not arrive".to_owned()),
    }
}

/// QEMU's monitor protocol: a line of JSON for each command, answer and event.
struct Monitor {
    stream: BufReader<Box<dyn Duplex>>,
}

impl Monitor {
    async fn ask(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        let failed = |error: io::Error| format!("QEMU's monitor does not answer: {error}");
        let line = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        self.stream.write_all(line.as_bytes()).await.map_err(failed)?;
        self.stream.flush().await.map_err(failed)?;
        loop {
            let mut line = String::new();
            let read = (&mut self.stream).take(MOST_LINE).read_line(&mut line).await;
            if read.map_err(failed)? == 0 {
                return Err("QEMU's monitor has ended".to_owned());
            }
            let mut answer: Value = serde_json::from_str(&line)
                .map_err(|error| format!("QEMU's monitor answered no JSON: {error}"))?;
            if let Some(error) = answer.get("error") {
                return Err(format!("QEMU refuses {command}: {}", error["desc"]));
            }
            // Everything else is an event or the greeting.
            if let Some(answer) = answer.get_mut("return") {
                return Ok(answer.take());
            }
        }
    }
}

/// Writes the first stream that leaves the jail to a file.
struct Outlet {
    most: u64,
    file: Mutex<Option<(File, oneshot::Sender<io::Result<u64>>)>>,
}

impl Outlet {
    fn new(file: File, most: u64) -> (Outlet, oneshot::Receiver<io::Result<u64>>) {
        let (sender, written) = oneshot::channel();
        (Outlet { most, file: Mutex::new(Some((file, sender))) }, written)
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Gateway for Outlet {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, done)) = file.take().filter(|_| destination == Destination::Tools) else {
            return Box::pin(async {});
        };
        let most = self.most;
        Box::pin(async move {
            let written = async {
                let mut file = tokio::fs::File::from_std(file);
                let mut stream = BufReader::with_capacity(STEP_BYTES, stream.take(most));
                let bytes = tokio::io::copy_buf(&mut stream, &mut file).await?;
                file.sync_all().await?;
                match bytes < most {
                    true => Ok(bytes),
                    false => Err(io::ErrorKind::FileTooLarge.into()),
                }
            };
            let _ = done.send(written.await);
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: false, tools: true }
    }

    fn most_streams(&self) -> usize {
        1
    }
}
