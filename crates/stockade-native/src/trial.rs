//! A throw-away wall, built to see whether it can be.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::Policy;
use stockade_provider::{Entry, Root, SandboxRequest, Surroundings};

use crate::error::StartError;

/// How long a throw-away wall may take; it usually takes a fiftieth of that, and `doctor`
/// promises to end in two seconds.
const PATIENCE: Duration = Duration::from_millis(1700);

/// How long taking down one that took too long is waited for; it goes on behind.
const LONGER: Duration = Duration::from_millis(150);

/// Builds and ends a sandbox of a short policy, which takes every default. Blocks: it is asked for
/// by commands that explain a host, never on the way to a run.
pub(crate) fn build(
    policy: &'static str,
    start: impl FnOnce(SandboxRequest) -> BoxFuture<'static, Result<(), StartError>> + Send + 'static,
) -> Result<(), StartError> {
    let (said, heard) = mpsc::channel();
    let build = move || {
        // Whoever waited too long is gone.
        let _ = said.send(build_here(policy, start));
    };
    // On a thread of its own: the caller may be inside a runtime already, and waits no longer than
    // it said.
    let named = std::thread::Builder::new().name("stockade-trial".to_owned());
    named.spawn(build).map_err(StartError::prepare("start the thread of a trial"))?;
    match heard.recv_timeout(PATIENCE + LONGER) {
        Ok(built) => built,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(slow()),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(StartError::Silent),
    }
}

fn build_here(
    policy: &str,
    start: impl FnOnce(SandboxRequest) -> BoxFuture<'static, Result<(), StartError>>,
) -> Result<(), StartError> {
    let policy = Policy::parse_str("trial", policy, Path::new("/"))
        .expect("a policy of a trial is one of two words at most");
    let request = SandboxRequest {
        policy: Arc::new(policy),
        root: Root::Standard,
        entry: Entry::Program("true".to_owned()),
        surroundings: Surroundings::default(),
        protected: Vec::new(),
        gateway: None,
        tools: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::prepare("start the runtime of a trial"))?;
    runtime.block_on(async {
        let trial = tokio::time::timeout(PATIENCE, start(request));
        trial.await.unwrap_or_else(|_| Err(slow()))
    })
}

fn slow() -> StartError {
    StartError::Slow { limit_ms: PATIENCE.as_millis() }
}
