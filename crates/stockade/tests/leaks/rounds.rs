//! How much is tried, and how long it may take to be gone.

use std::time::{Duration, Instant};

use crate::leftovers::{descendants, named, reap};

/// Whether all the rounds are asked for that are promised, and not only the quick ones.
pub(crate) fn is_long() -> bool {
    std::env::var_os("STOCKADE_LONG").is_some()
}

/// Whether no process below this one is left within a time. Orphans that have ended are waited for.
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
