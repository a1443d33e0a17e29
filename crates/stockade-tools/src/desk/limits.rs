//! The limits of a policy that a desk keeps.

use std::sync::Mutex;
use std::time::Duration;

use stockade_policy::{Limit, Limits, Policy};
use tokio::time::Instant;

use crate::json::Bounds;

/// Limits of each call, and of how many there are.
#[derive(Debug)]
pub(super) struct CallLimits {
    /// Of arguments, and of a result.
    pub(super) bounds: Bounds,
    /// From the request to the answer.
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

/// A limit that always has a value; where it ever had none, nothing passes.
fn size(limits: &Limits, limit: Limit) -> usize {
    usize::try_from(limits.value(limit).unwrap_or(0)).unwrap_or(usize::MAX)
}

/// So many calls a second: what is not used is saved for one second.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    saved: Mutex<(f64, Instant)>,
}

impl Rate {
    fn new(per_second: u64) -> Rate {
        // At most a million, so nothing is rounded.
        let per_second = u32::try_from(per_second).map_or(f64::MAX, f64::from);
        Rate { per_second, saved: Mutex::new((per_second, Instant::now())) }
    }

    /// Whether one more call may begin now.
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
    async fn a_rate_lets_that_many_begin_in_a_second() {
        let rate = Rate::new(10);
        let begun = |_: &i32| rate.take();
        assert_eq!((0..100).filter(begun).count(), 10);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!((0..100).filter(begun).count(), 5);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!((0..100).filter(begun).count(), 10);
    }
}
