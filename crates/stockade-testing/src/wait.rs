//! Waiting for events with a deadline.

use std::time::{Duration, Instant};

/// Longer than anything takes that a test waits for.
pub const DEADLINE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(5);

/// Polls a condition until it holds; returns false if it does not hold within the limit.
pub fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    look(limit, || holds().then_some(())).is_some()
}

/// Polls until a value exists.
///
/// # Panics
/// If none exists within [`DEADLINE`].
#[track_caller]
pub fn wait_for<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    look(DEADLINE, found).unwrap_or_else(|| panic!("waited in vain: {what}"))
}

fn look<T>(limit: Duration, found: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = found() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::park_timeout(INTERVAL);
    }
}
