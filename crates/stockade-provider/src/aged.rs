//! A cached value that expires.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Caches a fact about a host for a limited time.
#[derive(Debug)]
pub struct Aged<T> {
    most: Duration,
    found: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Aged<T> {
    /// An empty cache; a value expires after `most`.
    pub fn new(most: Duration) -> Aged<T> {
        Aged { most, found: Mutex::new(None) }
    }

    /// The cached value, or the result of `find` if the value has expired. Concurrent callers wait.
    pub fn get(&self, find: impl FnOnce() -> T) -> Arc<T> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        match &*found {
            Some((at, value)) if at.elapsed() < self.most => Arc::clone(value),
            _ => {
                let value = Arc::new(find());
                *found = Some((Instant::now(), Arc::clone(&value)));
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_cached_while_young_and_recomputed_when_old() {
        let young = Aged::new(Duration::from_secs(3600));
        assert_eq!((*young.get(|| 1), *young.get(|| 2)), (1, 1));
        let old = Aged::new(Duration::ZERO);
        assert_eq!((*old.get(|| 1), *old.get(|| 2)), (1, 2));
    }
}
