//! The desk itself, as the engine sees it.
//!
//! ```text
//! open ── close ─────────────▶ closed: calls under way are cancelled, and told so
//!   └── an event is lost ────▶ closed: no call that would not be recorded
//! ```

mod account;
mod call;
mod connection;
mod limits;
mod observed;
mod request;
mod shared;

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_policy::{Context, Policy};
use stockade_provider::{Duplex, ToolDoor};
use stockade_record::Sink;

use crate::glue;
use crate::json::Bounds;
use crate::tools::Tools;
use shared::{Served, Shared};

pub use observed::Observed;

/// Where programs of one sandbox call tools. Clones are the same desk.
#[derive(Clone)]
pub struct Desk {
    shared: Arc<Shared>,
}

impl Desk {
    /// A desk that lets those tools be called that the policy allows. The clock of the context
    /// goes on from now.
    pub fn new(policy: Arc<Policy>, tools: Tools, context: Context, sink: Arc<dyn Sink>) -> Desk {
        Desk { shared: Arc::new(Shared::new(policy, tools, context, sink)) }
    }

    /// What the sandbox shows of the tools that are both allowed and offered.
    pub fn door(&self) -> ToolDoor {
        let listed = shared::listed(&self.shared.policy, &self.shared.tools);
        ToolDoor { files: glue::files(&listed), environment: glue::environment() }
    }

    /// Serves one connection up to its end. Dropping what is returned cancels its calls.
    ///
    /// Everything that comes on the stream is hostile.
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

    /// Cancels every call and takes none from now on.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Ends when no connection is served and no call is left untold. Calls of a connection that
    /// has ended are told a moment after it.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut serving = self.shared.serving.subscribe();
        async move {
            // The desk is alive as long as somebody serves, so waiting cannot fail.
            let _ = serving.wait_for(|serving| *serving == 0).await;
        }
    }

    /// What was refused so far, which limits were met, and how many calls there were.
    pub fn observed(&self) -> Observed {
        self.shared.observed().clone()
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Desk").finish_non_exhaustive()
    }
}

/// Reads a request and forgets it.
pub(crate) fn read_request(line: &[u8], bounds: Bounds) {
    if let Err(refused) = request::Request::read(line, bounds) {
        assert!(!refused.fault.message.is_empty(), "a refusal says why");
    }
}
