//! Tools that are functions in this process.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::fault::Fault;
use crate::run::{Call, Run};
use crate::task::ended;

/// The most concurrent calls of one blocking function. A function that hangs cannot be stopped;
/// this limit leaves threads for all other tools.
const MOST_BLOCKING: usize = 32;

type Blocks = dyn Fn(Value) -> Result<Value, Fault> + Send + Sync;
type Awaits = dyn Fn(Value) -> BoxFuture<'static, Result<Value, Fault>> + Send + Sync;

/// A blocking function; it runs on a blocking thread.
pub(crate) struct Blocking {
    function: Arc<Blocks>,
    permits: Arc<Semaphore>,
}

impl Blocking {
    pub(crate) fn new(function: Arc<Blocks>) -> Blocking {
        Blocking { function, permits: Arc::new(Semaphore::new(MOST_BLOCKING)) }
    }
}

impl Run for Blocking {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let (function, permits) = (Arc::clone(&self.function), Arc::clone(&self.permits));
        Box::pin(async move {
            let permit = permits.acquire_owned().await;
            let permit = permit.map_err(|_| Fault::broken("the tool accepts no more calls"))?;
            let task = tokio::task::spawn_blocking(move || {
                let result = function(call.arguments);
                drop(permit);
                result
            });
            task.await.unwrap_or_else(|error| Err(ended(error)))
        })
    }
}

/// A function that returns a future.
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
        Box::pin(async move { function(call.arguments).await })
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
