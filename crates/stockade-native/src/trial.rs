//! A throw-away wall, built to see whether it can be.

use std::path::Path;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_policy::Policy;
use stockade_provider::{Entry, Root, SandboxRequest, Surroundings};

use crate::error::StartError;

/// Builds and ends a sandbox of a short policy, which takes every default. Blocks: it is asked for
/// by commands that explain a host, never on the way to a run.
pub(crate) fn build<'p>(
    policy: &str,
    start: impl Fn(SandboxRequest) -> BoxFuture<'p, Result<(), StartError>> + Send,
) -> Result<(), StartError> {
    let policy = Policy::parse_str("trial", policy, Path::new("/"))
        .expect("a policy of a trial is one of two words at most");
    let request = SandboxRequest {
        policy: Arc::new(policy),
        root: Root::Standard,
        entry: Entry::Program("true".to_owned()),
        surroundings: Surroundings::default(),
        protected: Vec::new(),
    };
    let build = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::prepare("start the runtime of a trial"))?;
        runtime.block_on(start(request))
    };
    // On a thread of its own: the caller may be inside a runtime already.
    std::thread::scope(|scope| scope.spawn(build).join()).unwrap_or(Err(StartError::Silent))
}
