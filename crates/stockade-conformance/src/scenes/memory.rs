//! Memory on a host with swap.

use std::fs;

use super::must;
use crate::bench::Bench;
use crate::judge::ABSENT;
use crate::wall::Wall;

const WANTED: &[&str] = &["memory", "private", "256"];

/// Without the wall the host provides all of it, if it has swap.
pub(crate) fn swap_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    // The first line is the heading.
    must(swaps.lines().count() > 1, format!("{ABSENT}/proc/swaps lists nothing"))?;
    let seen = bench.on_host(WANTED)?;
    must(seen.ret() == Some(256), seen.summary())?;
    Ok("without the wall 256 MiB are there".to_owned())
}

/// Behind the wall the limit is the same as on a host without swap.
pub(crate) fn swap(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, &["--memory", "64m", "--disk", "32m"], WANTED)?;
    must(seen.answer.is_none() && seen.names_limit("max_memory_mb"), seen.summary())
}
