//! Tasks of the runtime that belong to somebody.

use std::any::Any;

use tokio::task::{JoinError, JoinHandle};

use crate::fault::Fault;

/// A task that ends when nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a task has no result: it panicked, or the runtime is going down.
pub(crate) fn ended(error: JoinError) -> Fault {
    match error.try_into_panic() {
        Ok(panic) => Fault::broken(format!("the tool panicked: {}", said(panic.as_ref()))),
        Err(_) => Fault::broken("the tool was stopped"),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why")
}
