//! Builds a trial wall to find out whether this host allows it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Policy;
use stockade_provider::{EntryProgram, Root, SandboxRequest};

use crate::error::StartError;

/// How long a trial wall may take. It usually takes a fiftieth of this, and `doctor` must end in
/// two seconds.
const PATIENCE: Duration = Duration::from_millis(1700);

/// Builds and ends a sandbox with a default policy.
pub(crate) async fn build<F>(
    policy: &str,
    start: impl FnOnce(SandboxRequest) -> F,
) -> Result<(), StartError>
where
    F: Future<Output = Result<(), StartError>>,
{
    let policy = Policy::parse_str("trial", policy, Path::new("/"))
        .expect("a policy of a trial is one of two words at most");
    let request = SandboxRequest {
        policy: Arc::new(policy),
        root: Root::Standard,
        entry: EntryProgram::Program("true".to_owned()),
        protected: Vec::new(),
        gateway: None,
        tools: None,
        authorities: None,
    };
    let slow = || StartError::Slow { limit_ms: PATIENCE.as_millis() };
    tokio::time::timeout(PATIENCE, start(request)).await.unwrap_or_else(|_| Err(slow()))
}
