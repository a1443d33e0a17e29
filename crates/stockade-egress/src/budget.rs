//! Byte and rate limits of the gate.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stockade_policy::{Limit, Policy};
use tokio::sync::watch;
use tokio::time::Instant;

/// How far ahead of its rate a sandbox may run.
const BURST: Duration = Duration::from_millis(250);

/// Below this many remaining bytes the size of each read matters.
const AMPLE_BYTES: u64 = 16 << 20;

/// The budget that all connections of one sandbox share.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    most: AtomicU64,
    pace: Mutex<Pace>,
    hit: watch::Sender<Hit>,
}

/// The limits that were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) bytes: bool,
    pub(crate) rate: bool,
}

/// When the next bytes may pass.
#[derive(Debug)]
struct Pace {
    bytes_per_second: Option<u64>,
    next: Option<Instant>,
}

impl Budget {
    pub(crate) fn new(policy: &Policy) -> Budget {
        let budget = Budget {
            used: AtomicU64::new(0),
            most: AtomicU64::new(0),
            pace: Mutex::new(Pace { bytes_per_second: None, next: None }),
            hit: watch::Sender::new(Hit::default()),
        };
        budget.change(policy);
        budget
    }

    /// Applies the limits of another policy; used bytes stay used.
    pub(crate) fn change(&self, policy: &Policy) {
        let most = policy.limits.value(Limit::EgressBytes).unwrap_or(u64::MAX);
        self.most.store(most, Ordering::Relaxed);
        let mut pace = self.pace.lock().unwrap_or_else(|held| held.into_inner());
        pace.bytes_per_second = policy.limits.value(Limit::EgressRate);
    }

    /// Waits until so many bytes may pass. Fails when the limit is used up.
    pub(crate) async fn spend(&self, bytes: u64) -> io::Result<()> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.most.load(Ordering::Relaxed) {
            self.hit.send_if_modified(|hit| !std::mem::replace(&mut hit.bytes, true));
            return Err(io::Error::other("max_egress_bytes is used up"));
        }
        if let Some(moment) = self.moment(bytes) {
            self.hit.send_if_modified(|hit| !std::mem::replace(&mut hit.rate, true));
            tokio::time::sleep_until(moment).await;
        }
        Ok(())
    }

    /// Whether bytes pass without delay: no rate applies, and the limit is far.
    pub(crate) fn is_ample(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let left = self.most.load(Ordering::Relaxed).saturating_sub(used);
        let pace = self.pace.lock().unwrap_or_else(|held| held.into_inner());
        pace.bytes_per_second.is_none() && left >= AMPLE_BYTES
    }

    pub(crate) fn hit(&self) -> Hit {
        *self.hit.borrow()
    }

    /// Resolves when the byte limit is used up.
    pub(crate) async fn exceeded(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.hit.subscribe().wait_for(|hit| hit.bytes).await;
    }

    /// When these bytes may pass, if not now.
    fn moment(&self, bytes: u64) -> Option<Instant> {
        let mut pace = self.pace.lock().unwrap_or_else(|held| held.into_inner());
        let rate = pace.bytes_per_second?;
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = pace.next.map_or(earliest, |next| next.max(earliest));
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let end = begin + takes;
        pace.next = Some(end);
        (end > now).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn budget(limits: &str) -> Budget {
        let text = format!("limits: {{{limits}}}");
        Budget::new(&Policy::parse_str("p", &text, Path::new("/")).unwrap())
    }

    #[tokio::test]
    async fn bytes_over_the_limit_do_not_pass_and_are_reported() {
        let budget = budget("max_egress_bytes: 100");
        budget.spend(60).await.unwrap();
        budget.spend(40).await.unwrap();
        assert_eq!(budget.hit(), Hit::default());
        assert!(budget.spend(1).await.is_err());
        budget.exceeded().await;
        assert!(budget.hit().bytes);
    }

    #[tokio::test]
    async fn large_reads_need_no_rate_and_a_distant_limit() {
        assert!(budget("max_egress_bytes: 1000000000").is_ample());
        assert!(!budget("max_egress_bytes_per_second: 1000000000").is_ample());
        let nearly = budget("max_egress_bytes: 20000000");
        assert!(nearly.is_ample());
        nearly.spend(10_000_000).await.unwrap();
        assert!(!nearly.is_ample());
    }

    #[tokio::test(start_paused = true)]
    async fn rate_holds_over_time_for_any_read_size() {
        let budget = budget("max_egress_bytes_per_second: 10000");
        let begin = Instant::now();
        for _ in 0..100 {
            budget.spend(1000).await.unwrap();
        }
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(9700), "{took:?}");
        assert!(took <= Duration::from_millis(10_100), "{took:?}");
        assert!(budget.hit().rate);
    }
}
