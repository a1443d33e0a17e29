//! Follows a program of a guest to its end.
//!
//! ```text
//! running ── its end ─────────────────────────────────────▶ ended
//!    └── its limit: killed ── its end within CONFIRMED ──▶ ended by the limit
//!                         └── not confirmed: the sandbox is ended ──▲
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::Limit;
use stockade_provider::{Error, ErrorKind, ExecutionControl, ProcessEnd};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a killed execution may take to end before its sandbox is ended.
pub const CONFIRMED: Duration = Duration::from_millis(500);

/// The end of a program.
pub type End = BoxFuture<'static, Result<ProcessEnd, Error>>;

/// Follows a program to its end, even if no caller awaits it, and kills it at its limit. If that is
/// not confirmed, `end_sandbox` runs. `finish` has the last word about the result.
pub fn follow<F>(
    mut end: End,
    limit: Option<Duration>,
    execution: Arc<dyn ExecutionControl>,
    end_sandbox: impl Future<Output = ()> + Send + 'static,
    finish: impl FnOnce(Result<ProcessEnd, Error>) -> F + Send + 'static,
) -> End
where
    F: Future<Output = Result<ProcessEnd, Error>> + Send,
{
    let (sender, ended) = oneshot::channel();
    tokio::spawn(async move {
        let result = match limit {
            None => end.await,
            Some(limit) => match timeout(limit, &mut end).await {
                Ok(result) => result,
                Err(_) => {
                    // Fails if the sandbox has already ended.
                    let _ = execution.kill().await;
                    if timeout(CONFIRMED, end).await.is_err() {
                        end_sandbox.await;
                    }
                    Ok(ProcessEnd::LimitExceeded { limit: Limit::Timeout })
                }
            },
        };
        // The caller may not wait for it.
        let _ = sender.send(finish(result).await);
    });
    let lost = |_| Err(Error::new(ErrorKind::Lost, "the runtime of the sandbox has ended"));
    Box::pin(async move { ended.await.unwrap_or_else(lost) })
}
