//! A value that is found anew when it is too old.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Keeps what was found on a host for a while.
#[derive(Debug)]
pub struct Aged<T> {
    most: Duration,
    found: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Aged<T> {
    /// Nothing yet; what is found is kept for `most`.
    pub fn new(most: Duration) -> Aged<T> {
        Aged { most, found: Mutex::new(None) }
    }

    /// What was found, or what `find` finds now if that is too old. Others wait meanwhile.
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
    fn value_is_kept_while_it_is_young_and_found_anew_when_it_is_old() {
        let young = Aged::new(Duration::from_secs(3600));
        assert_eq!((*young.get(|| 1), *young.get(|| 2)), (1, 1));
        let old = Aged::new(Duration::ZERO);
        assert_eq!((*old.get(|| 1), *old.get(|| 2)), (1, 2));
    }
}
