//! One execution of a native or reduced sandbox: its control, its timeout and its end.
//!
//! ```text
//! running ── the guest reports its end ──▶ is its leaf empty? ── yes ──────────────▶ ended
//!    └── kill, timeout: its leaf is killed ──▲     └── no: killed, 500 ms at most ──▲
//!                                                       └── not confirmed: the sandbox is ended
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_carrier::{End, ExecutionControl as Guest, follow};
use stockade_image::Listening;
use stockade_launcher::Ending;
use stockade_provider::{
    Error, ErrorKind, ExecutionControl, ExecutionUsage, ProcessEnd, TerminalSize,
};

use crate::facts_cache::blocking;
use crate::leaves::Leaf;
use crate::observe::Watched;
use crate::start::{Held, LauncherSocket};

/// The control of one execution: the guest acts on it, and the host measures it and ends it.
pub(crate) struct NativeExecution {
    /// `None` if the sandbox ended before the program could start.
    pub(crate) guest: Option<Guest>,
    /// The denied commands that stubs reported since its start, if the root is the hardened image.
    pub(crate) listening: Option<Listening>,
    /// `None` without usable cgroups.
    pub(crate) leaf: Option<Arc<Leaf>>,
    /// The deadline that the launcher keeps, until the program has ended or is killed.
    pub(crate) held: Mutex<Option<Held>>,
    pub(crate) sandbox: Arc<LauncherSocket>,
    pub(crate) watched: Arc<Watched>,
    /// The number of programs started so far in the sandbox.
    pub(crate) starts: Arc<AtomicU64>,
}

impl NativeExecution {
    /// Follows the program to its end, even if no caller awaits it, and kills it at its timeout.
    pub(crate) fn followed(self: &Arc<Self>, end: End, limit: Option<Duration>) -> End {
        let (execution, sandbox) = (Arc::clone(self), Arc::clone(&self.sandbox));
        let end_sandbox = async move { sandbox.end() };
        self.watched.running.send_modify(|running| *running += 1);
        follow(end, limit, Arc::clone(self) as _, end_sandbox, |result| async move {
            let result = explain(result, &execution.sandbox).await;
            execution.release();
            execution.finish().await;
            execution.watched.running.send_modify(|running| *running -= 1);
            result
        })
    }

    /// Kills what is left in the leaf of a program that has ended. The guest's report is not
    /// trusted, and without a pid namespace it knows only the program's process group.
    async fn finish(&self) {
        let (Some(leaf), Some(leaves)) = (&self.leaf, &self.watched.leaves) else { return };
        if !leaf.is_empty() {
            self.kill_leaf(leaf).await;
        }
        leaves.ended(leaf);
    }

    /// Kills everything in the leaf, and the sandbox if that is not confirmed.
    async fn kill_leaf(&self, leaf: &Arc<Leaf>) {
        let killed = Arc::clone(leaf);
        if !blocking(move || killed.kill()).await {
            self.sandbox.end();
        }
    }

    /// Releases the deadline that the launcher keeps.
    fn release(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl ExecutionControl for NativeExecution {
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match &self.guest {
                Some(guest) => Ok(guest.signal(signal)?),
                None => Ok(()),
            }
        })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            let Some(guest) = &self.guest else { return Ok(()) };
            // The guest kills a program that has not started yet, and knows its process group.
            guest.kill()?;
            if let Some(leaf) = &self.leaf {
                self.kill_leaf(leaf).await;
            }
            self.release();
            Ok(())
        })
    }

    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match &self.guest {
                Some(guest) => Ok(guest.resize(size).await?),
                None => Ok(()),
            }
        })
    }

    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async {
            let watched = Arc::clone(&self.watched);
            let heard = self.listening.iter().flat_map(Listening::heard);
            if let Some(leaf) = &self.leaf {
                let leaf = Arc::clone(leaf);
                let mut used = blocking(move || watched.of_execution(&leaf)).await;
                used.denials.extend(heard);
                return used;
            }
            // The sandbox's counters belong to one execution only if it is the only one so far.
            if self.starts.load(Ordering::Relaxed) != 1 {
                return ExecutionUsage { denials: heard.collect(), ..ExecutionUsage::default() };
            }
            // It includes what was heard.
            let used = blocking(move || watched.observe()).await;
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

/// Adds the launcher's report to an end if the stream to the guest was lost.
pub(crate) async fn explain(
    end: Result<ProcessEnd, Error>,
    control: &LauncherSocket,
) -> Result<ProcessEnd, Error> {
    let is_lost = match &end {
        Ok(end) => matches!(end, ProcessEnd::SandboxEnded { .. }),
        Err(error) => error.kind() == ErrorKind::Lost,
    };
    if !is_lost {
        return end;
    }
    match control.ending().await {
        Some(Ending { signal: Some(signal), .. }) => {
            Ok(ProcessEnd::SandboxEnded { signal: Some(signal) })
        }
        _ => end,
    }
}
