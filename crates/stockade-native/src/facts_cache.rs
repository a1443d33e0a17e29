//! Facts about the host that a wall caches, refreshed when they are old.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use stockade_cgroup::Layout;
use stockade_provider::{Aged, FACTS_AGE};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::machine::Machine;
use crate::start::HostProcess;

/// What an inspection of this host found.
pub(crate) struct FactsCache {
    machine: Aged<Machine>,
    layout: Aged<Layout>,
}

impl Default for FactsCache {
    fn default() -> FactsCache {
        FactsCache { machine: Aged::new(FACTS_AGE), layout: Aged::new(FACTS_AGE) }
    }
}

impl FactsCache {
    pub(crate) fn machine(&self) -> Arc<Machine> {
        self.machine.get(Machine::look)
    }

    /// The expected cgroup layout; creating a group shows whether it is right.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.get(Layout::expect)
    }
}

/// Runs work that waits for the file system or for another process on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The task is never aborted, and a runtime that shuts down polls no futures, so this is a
        // panic.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// How long a start waits for its turn. Starts that take longer hang, and must not block others.
const TURN: Duration = Duration::from_secs(1);

/// Runs the blocking work of a start, at most two starts per CPU at a time: more would only take
/// CPU time from the threads of the runtime.
pub(crate) async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Semaphore::new(2 * processors)
    });
    let turn = timeout(TURN, TURNS.acquire()).await;
    blocking(move || {
        let done = work();
        drop(turn);
        done
    })
    .await
}

/// Drops a value whose release may wait for the kernel, on a blocking thread. A process that ends
/// next drops it directly, because it would end before that thread.
pub(crate) fn release(held: impl Send + 'static, user: HostProcess) {
    match (user, tokio::runtime::Handle::try_current()) {
        (HostProcess::Continues, Ok(runtime)) => drop(runtime.spawn_blocking(move || drop(held))),
        (HostProcess::Exits, _) | (HostProcess::Continues, Err(_)) => drop(held),
    }
}
