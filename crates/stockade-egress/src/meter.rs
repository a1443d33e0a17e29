//! The traffic of one connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::Budget;
use crate::shared::Shared;

/// The bytes that one connection sent and received, and when it last did.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) shared: Arc<Shared>,
    started: Instant,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    last_ms: AtomicU64,
}

impl Meter {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Meter> {
        Arc::new(Meter {
            shared,
            started: Instant::now(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            last_ms: AtomicU64::new(0),
        })
    }

    /// The bytes sent and received so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Resolves when nothing was sent or received for this long.
    pub(crate) async fn silent_for(&self, time: Duration) {
        loop {
            let last = self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            if last.elapsed() >= time {
                return;
            }
            tokio::time::sleep_until(last + time).await;
        }
    }

    /// Restarts the idle timer.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// Counts bytes of one direction once they may pass.
    pub(crate) async fn count(&self, counter: &AtomicU64, bytes: u64) -> io::Result<()> {
        self.touch();
        self.budget().spend(bytes).await?;
        counter.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.shared.budget
    }
}
