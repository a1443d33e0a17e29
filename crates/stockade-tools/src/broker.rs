//! The tool broker's interface for the engine.
//!
//! ```text
//! open ── close ─────────────▶ closed: running calls are cancelled and recorded
//!   └── an event is lost ────▶ closed: no call runs unrecorded
//! ```

mod call;
mod call_record;
mod connection;
mod limits;
mod observed;
mod request;
mod shared;

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_policy::{Context, Policy};
use stockade_provider::{Duplex, ToolAccess};
use stockade_record::Sink;

use crate::glue;
use crate::json::Bounds;
use crate::tools::Tools;
use shared::{Served, Shared};

pub use observed::Observed;

/// Serves tool calls from the programs of one sandbox. Clones share one broker.
#[derive(Clone)]
pub struct ToolBroker {
    shared: Arc<Shared>,
}

impl ToolBroker {
    /// Creates a broker that allows the tools the policy lists. The clock of the context advances
    /// from now.
    pub fn new(
        policy: Arc<Policy>,
        tools: Tools,
        context: Context,
        sink: Arc<dyn Sink>,
    ) -> ToolBroker {
        ToolBroker { shared: Arc::new(Shared::new(policy, tools, context, sink)) }
    }

    /// The files and environment that the sandbox gets for the tools that are both allowed and
    /// offered.
    pub fn access(&self) -> ToolAccess {
        let listed = shared::listed(&self.shared.policy, &self.shared.tools);
        ToolAccess { files: glue::files(&listed), environment: glue::environment() }
    }

    /// Serves one connection until it ends. Dropping the future cancels its calls.
    ///
    /// All bytes on the stream are untrusted.
    pub fn serve(&self, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        let served = Served::new(&shared);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = shared.closed() => {}
                () = connection::serve(&shared, stream) => {}
            }
            drop(served);
        })
    }

    /// Cancels every call and accepts no further ones.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Resolves when no connection is served and every call is recorded. Calls of a closed
    /// connection are recorded shortly after it closes.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut serving = self.shared.serving.subscribe();
        async move {
            // The sender lives as long as a connection is served, so waiting cannot fail.
            let _ = serving.wait_for(|serving| *serving == 0).await;
        }
    }

    /// The denials so far, the limits that were reached, and the number of calls.
    pub fn observed(&self) -> Observed {
        self.shared.observed().clone()
    }
}

impl fmt::Debug for ToolBroker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ToolBroker").finish_non_exhaustive()
    }
}

/// Parses a request and discards it.
pub(crate) fn read_request(line: &[u8], bounds: Bounds) {
    if let Err(refused) = request::Request::read(line, bounds) {
        assert!(!refused.fault.message.is_empty(), "a refusal has a message");
    }
}
