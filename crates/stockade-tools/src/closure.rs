//! Tools that are functions of this process.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};

use crate::fault::Fault;
use crate::run::{Call, Run};

/// The most calls of one blocking function at the same time. A function that hangs cannot be
/// stopped, only left behind; this many of them leave threads for everybody else.
const MOST_BLOCKING: usize = 32;

type Blocks = dyn Fn(Value) -> Result<Value, Fault> + Send + Sync;
type Awaits = dyn Fn(Value) -> BoxFuture<'static, Result<Value, Fault>> + Send + Sync;

/// A function that blocks; it runs on a thread of its own.
pub(crate) struct Blocking {
    function: Arc<Blocks>,
    places: Arc<Semaphore>,
}

impl Blocking {
    pub(crate) fn new(function: Arc<Blocks>) -> Blocking {
        Blocking { function, places: Arc::new(Semaphore::new(MOST_BLOCKING)) }
    }
}

impl Run for Blocking {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let (function, places) = (Arc::clone(&self.function), Arc::clone(&self.places));
        Box::pin(async move {
            let place = places.acquire_owned().await;
            let place = place.map_err(|_| Fault::broken("the tool takes no calls any more"))?;
            let task = tokio::task::spawn_blocking(move || {
                let result = function(call.arguments);
                drop(place);
                result
            });
            task.await.unwrap_or_else(|error| Err(ended(error)))
        })
    }
}

/// A function that gives a future; it runs as a task of its own, so that its panic is its own.
pub(crate) struct Awaiting {
    function: Arc<Awaits>,
}

impl Awaiting {
    pub(crate) fn new(function: Arc<Awaits>) -> Awaiting {
        Awaiting { function }
    }
}

impl Run for Awaiting {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let function = Arc::clone(&self.function);
        Box::pin(async move {
            let task = tokio::spawn(async move { function(call.arguments).await });
            let mut task = AbortOnDrop(task);
            (&mut task.0).await.unwrap_or_else(|error| Err(ended(error)))
        })
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Blocking")
    }
}

impl fmt::Debug for Awaiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Awaiting")
    }
}

/// A task that ends when nobody waits for it any more.
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a task has no result: it panicked, or the runtime is going down.
fn ended(error: JoinError) -> Fault {
    match error.try_into_panic() {
        Ok(panic) => Fault::broken(format!("the tool panicked: {}", said(panic.as_ref()))),
        Err(_) => Fault::broken("the tool was stopped"),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it did not say why")
}
