//! Tasks with an owner.

use std::any::Any;

use tokio::task::{JoinError, JoinHandle};

use crate::fault::Fault;

/// A task that is aborted when its owner is dropped.
#[derive(Debug)]
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a task has no result: it panicked, or the runtime shuts down.
pub(crate) fn ended(error: JoinError) -> Fault {
    match error.try_into_panic() {
        Ok(panic) => Fault::broken(format!("the tool panicked: {}", message(panic.as_ref()))),
        Err(_) => Fault::broken("the tool was stopped"),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}
