//! Memory, files and processor time of a sandbox, counted on the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stockade_policy::{Limit, Policy};
use wasmtime::ResourceLimiter;

/// The most elements of all tables of one instance. The component's own tables have less than
/// 20,000, and no program inside can make them larger.
const MAX_TABLE_ELEMENTS: usize = 100_000;

const MEBIBYTE: u64 = 1 << 20;

/// An amount that may not exceed a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    used: AtomicU64,
    peak: AtomicU64,
    refused: AtomicBool,
}

impl Budget {
    pub(crate) fn new(most: u64) -> Budget {
        let (used, peak) = (AtomicU64::new(0), AtomicU64::new(0));
        Budget { most, used, peak, refused: AtomicBool::new(false) }
    }

    /// Takes an amount, or nothing if the limit would be exceeded.
    pub(crate) fn take(&self, amount: u64) -> bool {
        let add = |used: u64| used.checked_add(amount).filter(|after| *after <= self.most);
        match self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add) {
            Ok(before) => {
                self.peak.fetch_max(before + amount, Ordering::SeqCst);
                true
            }
            Err(_) => {
                self.refused.store(true, Ordering::SeqCst);
                false
            }
        }
    }

    pub(crate) fn give_back(&self, amount: u64) {
        self.used.fetch_sub(amount, Ordering::SeqCst);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::SeqCst)
    }

    /// Whether something was refused since the start.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst)
    }
}

/// The budgets of one sandbox.
#[derive(Debug)]
pub struct Budgets {
    /// Linear memory of all running instances and the content of all files, in bytes.
    pub(crate) memory: Budget,
    /// Content of files, in bytes.
    pub(crate) disk: Budget,
    /// Files, directories and links.
    pub(crate) inodes: Budget,
    /// Processor time of all executions, in nanoseconds; never refused here.
    pub(crate) cpu: AtomicU64,
}

impl Budgets {
    pub(crate) fn of(policy: &Policy) -> Budgets {
        let value = |limit| policy.limits.value(limit).unwrap_or(u64::MAX);
        let bytes = |limit| value(limit).saturating_mul(MEBIBYTE);
        Budgets {
            memory: Budget::new(bytes(Limit::Memory)),
            disk: Budget::new(bytes(Limit::Disk)),
            inodes: Budget::new(value(Limit::Inodes)),
            cpu: AtomicU64::new(0),
        }
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.cpu.load(Ordering::SeqCst))
    }
}

/// Limits what one instance allocates. Dropping it returns its memory to the sandbox.
#[derive(Debug)]
pub(crate) struct InstanceLimits {
    budgets: Arc<Budgets>,
    held: u64,
    peak: Arc<AtomicU64>,
    refused: Arc<AtomicBool>,
}

impl InstanceLimits {
    pub(crate) fn new(budgets: Arc<Budgets>) -> InstanceLimits {
        InstanceLimits { budgets, held: 0, peak: Arc::default(), refused: Arc::default() }
    }

    /// The memory of this instance, in bytes.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// The most memory of this instance so far, in bytes.
    pub(crate) fn peak(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.peak)
    }

    /// Whether memory was refused to this instance.
    pub(crate) fn refused(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.refused)
    }
}

impl ResourceLimiter for InstanceLimits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = u64::try_from(desired.saturating_sub(current)).unwrap_or(u64::MAX);
        let is_taken = self.budgets.memory.take(more);
        if is_taken {
            self.held += more;
            self.peak.fetch_max(self.held, Ordering::SeqCst);
        } else {
            self.refused.store(true, Ordering::SeqCst);
        }
        Ok(is_taken)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }

    // A component is made of about ten modules that share one memory.
    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        8
    }
}

impl Drop for InstanceLimits {
    fn drop(&mut self) {
        self.budgets.memory.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_takes_all_or_nothing_and_remembers_a_refusal() {
        let budget = Budget::new(10);
        assert!(budget.take(8) && !budget.has_refused());
        assert!(!budget.take(3) && budget.has_refused());
        assert!(budget.take(2));
        budget.give_back(10);
        assert!(budget.take(10) && !budget.take(u64::MAX));
        assert_eq!(budget.peak(), 10);
    }

    #[test]
    fn instance_returns_its_memory_when_it_is_dropped() {
        let policy = Policy::parse_str("p", "defaults: {max_memory_mb: 4}", "/".as_ref()).unwrap();
        let budgets = Arc::new(Budgets::of(&policy));
        let mut limits = InstanceLimits::new(Arc::clone(&budgets));
        let megabyte = 1 << 20;
        assert!(limits.memory_growing(0, 3 * megabyte, None).unwrap());
        assert!(!limits.memory_growing(3 * megabyte, 5 * megabyte, None).unwrap());
        assert!(limits.refused().load(Ordering::SeqCst));
        drop(limits);
        assert!(budgets.memory.take(4 << 20));
    }

    #[test]
    fn table_of_an_instance_is_bounded() {
        let policy = Policy::parse_str("p", "{}", "/".as_ref()).unwrap();
        let mut limits = InstanceLimits::new(Arc::new(Budgets::of(&policy)));
        assert!(limits.table_growing(0, MAX_TABLE_ELEMENTS, None).unwrap());
        assert!(!limits.table_growing(0, MAX_TABLE_ELEMENTS + 1, None).unwrap());
    }
}
