//! The programs of a session: those that run, and the last that have ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_api::{ExecutionView, Reply};
use stockade_provider::ExecutionControl;
use tokio::sync::{mpsc, watch};

/// How many programs that have ended are remembered.
const REMEMBERED: usize = 256;

/// Input for a program; `None` is its end.
pub(crate) type Input = mpsc::Sender<Option<Vec<u8>>>;

/// What a client needs to control a running program.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) control: Arc<dyn ExecutionControl>,
    /// `None` if its input is empty.
    pub(crate) input: Option<Input>,
    /// The reply that reports its end, once it has ended.
    pub(crate) end: watch::Receiver<Option<Reply>>,
}

struct Tracked {
    view: ExecutionView,
    /// `None` once the program has ended.
    handle: Option<Handle>,
}

/// All programs of a session by number.
#[derive(Default)]
pub(crate) struct Executions {
    table: Mutex<BTreeMap<u64, Tracked>>,
}

impl Executions {
    pub(crate) fn add(&self, view: ExecutionView, handle: Handle) {
        let mut table = self.lock();
        table.insert(view.execution, Tracked { view, handle: Some(handle) });
        while table.len() > REMEMBERED {
            let oldest = table.iter().find(|(_, entry)| entry.handle.is_none());
            let Some(oldest) = oldest.map(|(execution, _)| *execution) else { return };
            table.remove(&oldest);
        }
    }

    pub(crate) fn ended(&self, execution: u64, state: &str, code: u8) {
        if let Some(entry) = self.lock().get_mut(&execution) {
            state.clone_into(&mut entry.view.state);
            entry.view.code = Some(code);
            entry.handle = None;
        }
    }

    /// A running program.
    pub(crate) fn running(&self, execution: u64) -> Option<Handle> {
        self.lock().get(&execution)?.handle.clone()
    }

    pub(crate) fn count_running(&self) -> usize {
        self.lock().values().filter(|entry| entry.handle.is_some()).count()
    }

    /// Kills every running program with its descendants.
    pub(crate) async fn kill_all(&self) {
        let running: Vec<Handle> =
            self.lock().values().filter_map(|entry| entry.handle.clone()).collect();
        for handle in running {
            // Fails for a program that has ended meanwhile.
            let _ = handle.control.kill().await;
        }
    }

    /// Resolves when no program runs.
    pub(crate) async fn all_ended(&self) {
        loop {
            let running = self.lock().values().find_map(|entry| entry.handle.clone());
            let Some(mut running) = running else { return };
            // Fails if the task that follows the program is gone.
            if running.end.wait_for(Option::is_some).await.is_err() {
                return;
            }
            // The table changes right before the reply is sent.
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn views(&self) -> Vec<ExecutionView> {
        self.lock().values().map(|entry| entry.view.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Tracked>> {
        // No critical section leaves the table inconsistent.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
