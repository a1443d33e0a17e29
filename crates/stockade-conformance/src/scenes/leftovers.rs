//! Leftovers of all runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Running, error_text, must};
use crate::bench::Bench;
use crate::invariants::Host;
use crate::wall::Wall;

/// How long cleanup may take after a run has returned.
const PATIENCE: Duration = Duration::from_secs(10);

/// The check detects planted leftovers.
pub(crate) fn control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let before = Host::look(bench);
    let left = Running::start(bench.host_command(&["wait", "20000"]))?;
    let file = Path::new(&bench.names["shown"]).join("left-behind");
    fs::write(&file, "left").map_err(error_text)?;
    let differences = before.changed_since(bench, Duration::from_millis(100));
    fs::remove_file(&file).map_err(error_text)?;
    drop(left);
    must(differences.len() >= 2, format!("only {differences:?} was seen"))?;
    Ok("a planted process and file are seen".to_owned())
}

/// There are no leftovers.
pub(crate) fn play(bench: &Bench, _: &Wall) -> Result<(), String> {
    let differences = bench.host.changed_since(bench, PATIENCE);
    must(differences.is_empty(), differences.join(", "))
}
