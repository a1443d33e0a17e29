//! A throw-away wall, built to see whether it can be.

use std::path::Path;
use std::sync::Arc;

use stockade_policy::Policy;
use stockade_provider::{Entry, Root, SandboxRequest, Surroundings};

use crate::error::StartError;
use crate::provider::NativeProvider;

/// Builds and ends a sandbox of an empty policy, which takes every default. Blocks: it is asked for by commands that
/// explain a host, never on the way to a run.
pub(crate) fn build(provider: &NativeProvider) -> Result<(), StartError> {
    let policy = Policy::parse_str("trial", "{}", Path::new("/"))
        .expect("an empty policy takes every default");
    let request = SandboxRequest {
        policy: Arc::new(policy),
        root: Root::Standard,
        entry: Entry::Program("true".to_owned()),
        surroundings: Surroundings::default(),
        protected: Vec::new(),
    };
    let build = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::prepare("start the runtime of a trial"))?;
        runtime.block_on(provider.start_for_trial(&request))
    };
    // On a thread of its own: the caller may be inside a runtime already.
    std::thread::scope(|scope| scope.spawn(build).join()).unwrap_or(Err(StartError::Silent))
}
