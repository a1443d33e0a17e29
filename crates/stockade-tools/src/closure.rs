//! Tools that are functions of this process.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::fault::Fault;
use crate::run::{Call, Run};
use crate::task::ended;

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

/// A function that gives a future.
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
