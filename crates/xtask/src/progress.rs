//! Prints progress while suites run; the only module of xtask that prints.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "xtask is a command line for the developers of this project"
)]

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::suite::Outcome;

/// Prints one block of text.
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Prints one block of text to standard error.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// Runs a suite, printing its name before and how it went after. An error is a failure. Returns
/// the outcome and the time the suite took.
pub(crate) fn watch(name: &str, run: impl FnOnce() -> Result<Outcome>) -> (Outcome, Duration) {
    print!("{name:<10} ... ");
    // Best effort: a closed terminal is no reason to stop a run.
    let _ = io::stdout().flush();
    let started = Instant::now();
    let outcome = run().unwrap_or_else(|error| Outcome::failed(format!("{error:#}")));
    let time = started.elapsed();
    let seconds = time.as_secs_f32();
    match &outcome {
        Outcome::Passed { note } => println!("passed in {seconds:.1} s: {note}"),
        Outcome::Failed { why } => println!("FAILED in {seconds:.1} s\n{why}"),
        Outcome::Skipped { reason } => println!("skipped: {reason}"),
    }
    (outcome, time)
}
