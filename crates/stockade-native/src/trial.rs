//! A throw-away wall, built to see whether it can be.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Policy;
use stockade_provider::{Entry, Root, SandboxRequest, Surroundings};

use crate::error::StartError;
use crate::provider::NativeProvider;

/// How long a throw-away wall may take; it usually takes a hundredth of that.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Builds and ends a sandbox of an empty policy, which takes every default. Blocks: it is asked for
/// by commands that explain a host, never on the way to a run.
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
        let trial = async {
            let trial = provider.start_for_trial(&request);
            let slow = StartError::Slow { limit_ms: PATIENCE.as_millis() };
            tokio::time::timeout(PATIENCE, trial).await.unwrap_or(Err(slow))
        };
        runtime.block_on(trial)
    };
    // On a thread of its own: the caller may be inside a runtime already.
    std::thread::scope(|scope| scope.spawn(build).join()).unwrap_or(Err(StartError::Silent))
}
