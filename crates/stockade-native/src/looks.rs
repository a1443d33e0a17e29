//! What a wall knows of its host, looked at again when it is old.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use stockade_cgroup::Layout;
use stockade_provider::{Aged, FACTS_AGE};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::machine::Machine;
use crate::start::User;

/// What was found on this host.
pub(crate) struct Looks {
    machine: Aged<Machine>,
    layout: Aged<Layout>,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { machine: Aged::new(FACTS_AGE), layout: Aged::new(FACTS_AGE) }
    }
}

impl Looks {
    pub(crate) fn machine(&self) -> Arc<Machine> {
        self.machine.get(Machine::look)
    }

    /// The cgroups as they should be found; making a group shows whether they are.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.get(Layout::expect)
    }
}

/// Does work that waits for the file system or for another process on a thread where that holds up
/// nothing else.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It is never aborted, and a runtime that shuts down polls nothing.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// How long a start waits for its turn: others that take longer hang, and hold up nothing else.
const TURN: Duration = Duration::from_secs(1);

/// Does the blocking work of a start, at most twice as many at once as there are processors: more
/// would only keep the threads of the runtime from running.
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

/// Drops something whose release may wait for the kernel, on a thread where that holds up nothing
/// else. A process that ends next waits for it instead: it would end before such a thread.
pub(crate) fn release(held: impl Send + 'static, user: User) {
    match (user, tokio::runtime::Handle::try_current()) {
        (User::Stays, Ok(runtime)) => drop(runtime.spawn_blocking(move || drop(held))),
        (User::EndsNext, _) | (User::Stays, Err(_)) => drop(held),
    }
}
