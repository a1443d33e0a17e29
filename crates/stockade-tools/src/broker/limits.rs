//! The policy limits that the tool broker enforces.

use std::sync::Mutex;
use std::time::Duration;

use stockade_policy::{Limit, Limits, Policy};
use tokio::time::Instant;

use crate::json::Bounds;

/// Limits of each call and of the number of calls.
#[derive(Debug)]
pub(super) struct CallLimits {
    /// Bounds of the arguments and of the result.
    pub(super) bounds: Bounds,
    /// The time from the request to the answer.
    pub(super) most_time: Duration,
    pub(super) most_calls: u64,
    pub(super) most_at_once: usize,
    pub(super) rate: Option<Rate>,
}

impl CallLimits {
    pub(super) fn of(policy: &Policy) -> CallLimits {
        let limits = &policy.limits;
        CallLimits {
            bounds: Bounds {
                bytes: size(limits, Limit::ToolBytes),
                depth: size(limits, Limit::ToolDepth),
            },
            most_time: Duration::from_millis(limits.value(Limit::ToolTime).unwrap_or(0)),
            most_calls: limits.value(Limit::ToolCalls).unwrap_or(0),
            most_at_once: size(limits, Limit::ToolsAtOnce).max(1),
            rate: limits.value(Limit::ToolRate).map(Rate::new),
        }
    }
}

/// A limit that always has a value; if it were missing, nothing would pass.
fn size(limits: &Limits, limit: Limit) -> usize {
    usize::try_from(limits.value(limit).unwrap_or(0)).unwrap_or(usize::MAX)
}

/// A token bucket of so many calls per second; unused tokens are kept for one second.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    saved: Mutex<(f64, Instant)>,
}

impl Rate {
    fn new(per_second: u64) -> Rate {
        // At most a million, so the conversion is exact.
        let per_second = u32::try_from(per_second).map_or(f64::MAX, f64::from);
        Rate { per_second, saved: Mutex::new((per_second, Instant::now())) }
    }

    /// Whether another call may start now.
    pub(super) fn take(&self) -> bool {
        let mut saved = self.saved.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        let (held, since) = *saved;
        let grown = held + now.duration_since(since).as_secs_f64() * self.per_second;
        let held = grown.min(self.per_second);
        let may = held >= 1.0;
        *saved = (if may { held - 1.0 } else { held }, now);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rate_limits_the_calls_that_start_per_second() {
        let rate = Rate::new(10);
        let begun = |_: &i32| rate.take();
        assert_eq!((0..100).filter(begun).count(), 10);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!((0..100).filter(begun).count(), 5);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!((0..100).filter(begun).count(), 10);
    }
}
