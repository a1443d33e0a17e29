//! The length of these tests, and waiting until no process is left.

use std::time::{Duration, Instant};

use crate::leftovers::{descendants, named, reap};

/// Whether the tests run the full number of rounds instead of a quick selection.
pub(crate) fn is_long() -> bool {
    std::env::var_os("STOCKADE_LONG").is_some()
}

/// Fails if this process still has descendants after `limit`. Reaps orphans that have ended.
pub(crate) fn nothing_runs_within(limit: Duration) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    loop {
        reap();
        let left = descendants();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("still there: {}", named(&left)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
