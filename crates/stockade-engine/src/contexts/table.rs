//! The contexts of a session by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use stockade_contexts::{ContextName, ContextView};
use stockade_provider::{ExecutionControl, ExecutionId, SandboxUsage};
use tokio::sync::{Mutex as Turn, RwLock, mpsc, watch};
use tokio::time::timeout;

use super::inside::Job;
use super::{ContextError, ContextRequest, PYTHON};
use crate::Outcome;

/// How many contexts a session has at most.
pub(super) const MOST_CONTEXTS: usize = 32;

/// How long the contexts of a session that ends may take to record their ends.
const END_RECORD_TIMEOUT: Duration = Duration::from_secs(1);

/// One context with its interpreter.
pub(super) struct LiveContext {
    /// The interpreter at the wall.
    pub(super) id: ExecutionId,
    pub(super) name: ContextName,
    pub(super) request: ContextRequest,
    pub(super) started: SystemTime,
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) control: Arc<dyn ExecutionControl>,
    /// Whether SIGINT interrupts a call; else an interrupt ends the interpreter.
    pub(super) interrupts: bool,
    /// Held by the call that runs; others wait for it.
    pub(super) turn: Turn<()>,
    pub(super) state: Arc<watch::Sender<State>>,
    /// What the interpreter had used when the last call ended.
    pub(super) used: Mutex<SandboxUsage>,
}

/// What is known about an interpreter.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) is_busy: bool,
    pub(super) count: u64,
    /// Why it is being ended; set before the kill.
    pub(super) reason: Option<&'static str>,
    /// How it has ended, if the engine did not end it; set together with `ended`.
    pub(super) outcome: Option<Outcome>,
    /// Why it has ended.
    pub(super) ended: Option<String>,
}

impl LiveContext {
    /// Kills the interpreter and waits until it is gone, unless the kernel takes too long.
    pub(super) async fn kill(&self, reason: &'static str) {
        self.state.send_modify(|state| _ = state.reason.get_or_insert(reason));
        // Fails if it has ended.
        let _ = self.control.kill().await;
        let mut state = self.state.subscribe();
        let gone = state.wait_for(|state| state.ended.is_some());
        let _ = timeout(Duration::from_secs(2), gone).await;
    }

    /// Fails if the interpreter has ended.
    pub(super) fn check(&self) -> Result<(), ContextError> {
        match &self.state.borrow().ended {
            Some(why) => Err(self.ended(why.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn ended(&self, why: String) -> ContextError {
        ContextError::Ended { name: self.name.clone(), why }
    }

    pub(super) fn view(&self) -> ContextView {
        let state = self.state.borrow();
        let word = match (&state.ended, state.is_busy) {
            (Some(_), _) => "ended",
            (None, true) => "busy",
            (None, false) => "idle",
        };
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH);
        ContextView {
            name: self.name.as_str().to_owned(),
            language: PYTHON.to_owned(),
            working_directory: self.request.working_directory.clone(),
            state: word.to_owned(),
            why: state.ended.clone(),
            execution_count: state.count,
            started: since.map_or(0, |since| since.as_secs()),
        }
    }
}

/// The contexts of a session.
#[derive(Default)]
pub(crate) struct Contexts {
    table: Mutex<BTreeMap<ContextName, Arc<LiveContext>>>,
    /// Held while a context starts, so that no name is started twice.
    pub(crate) starting: Turn<()>,
    /// Held for reading while a program starts, and for writing while an interpreter starts that no
    /// other program may reach yet.
    pub(crate) alone: RwLock<()>,
}

impl Contexts {
    pub(super) fn get(&self, name: &ContextName) -> Result<Arc<LiveContext>, ContextError> {
        let unknown = || ContextError::Unknown { name: name.clone() };
        self.lock().get(name).cloned().ok_or_else(unknown)
    }

    pub(super) fn put(&self, entry: Arc<LiveContext>) {
        self.lock().insert(entry.name.clone(), entry);
    }

    pub(super) fn remove(&self, name: &ContextName) {
        self.lock().remove(name);
    }

    pub(super) fn views(&self) -> Vec<ContextView> {
        self.lock().values().map(|entry| entry.view()).collect()
    }

    /// The name of a new context.
    pub(super) fn free_name(
        &self,
        wanted: Option<&ContextName>,
    ) -> Result<ContextName, ContextError> {
        let table = self.lock();
        if table.len() >= MOST_CONTEXTS {
            return Err(ContextError::TooMany { most: MOST_CONTEXTS });
        }
        if let Some(name) = wanted {
            return match table.contains_key(name) {
                true => Err(ContextError::Exists { name: name.clone() }),
                false => Ok(name.clone()),
            };
        }
        let names = (1..).map(|number| format!("context-{number}"));
        let mut names = names.map(|name| name.parse().expect("a word and a number are a name"));
        Ok(names.find(|name| !table.contains_key(name)).expect("the numbers do not end"))
    }

    /// Waits until every interpreter of an ended sandbox is recorded.
    pub(crate) async fn close(&self) {
        let entries = std::mem::take(&mut *self.lock());
        let all = async {
            for entry in entries.values() {
                let mut state = entry.state.subscribe();
                // Fails if its task is gone.
                let _ = state.wait_for(|state| state.ended.is_some()).await;
            }
        };
        let _ = timeout(END_RECORD_TIMEOUT, all).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContextName, Arc<LiveContext>>> {
        // No critical section leaves the table inconsistent.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
