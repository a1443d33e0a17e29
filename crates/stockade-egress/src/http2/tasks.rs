//! The tasks of one connection: they end with it.

use std::sync::{Arc, Mutex, PoisonError};

use stockade_provider::{caller, on_behalf_of};
use tokio::task::JoinSet;

/// Owns the tasks; dropping it ends them.
#[derive(Default)]
pub(crate) struct Tasks(Handle);

/// Starts tasks. Holding it keeps no task alive.
#[derive(Clone, Default)]
pub(crate) struct Handle(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    pub(crate) fn handle(&self) -> Handle {
        self.0.clone()
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl Handle {
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Forgets those that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(on_behalf_of(caller(), task));
    }
}

impl<F> hyper::rt::Executor<F> for Handle
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        self.start(async move {
            let _ = future.await;
        });
    }
}
