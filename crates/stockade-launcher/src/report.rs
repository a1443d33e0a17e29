//! What the launcher tells the process that started it.

use serde::{Deserialize, Serialize};

/// Which part of a plan a step stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Before the clone.
    Outside,
    /// The clone and the maps of ids.
    Birth,
    /// Inside.
    Inside,
}

/// The first act that failed. Nothing was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the wall could not be built: {step} failed{}: {reason}", at(.target))]
pub struct Refusal {
    /// Where in the plan.
    pub phase: Phase,
    /// Its place in the list, counted from zero.
    pub index: usize,
    /// The step's name.
    pub step: String,
    /// What it was done to; empty when there is nothing to name.
    pub target: String,
    /// The kernel's error number, where it was the kernel that refused.
    pub errno: Option<i32>,
    /// The error in words.
    pub reason: String,
}

fn at(target: &str) -> String {
    if target.is_empty() { String::new() } else { format!(" at {target}") }
}

/// A message on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The first process inside exists; the id is the host's. Beside it comes a handle of it.
    Born {
        /// Its process id outside.
        process: i32,
    },
    /// Every step but the last was done. Beside it come the descriptors that are said here, in this
    /// order.
    Ready {
        /// The top of the scratch file system, so that its use can be seen from outside.
        scratch: bool,
        /// The listener that asks before a program is started. Nothing starts until it is answered.
        programs: bool,
    },
    /// A step failed.
    Refused(Refusal),
    /// Everything inside has ended. What the plan has for afterwards is done when the host has
    /// closed its end, and then the launcher ends.
    Ended(Ending),
}

/// How the first process inside ended, and what all of them used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal it died of.
    pub signal: Option<i32>,
    /// Processor time of everything inside that was waited for, in microseconds.
    pub cpu_micros: u64,
    /// The most memory that one process had at once, in bytes.
    pub largest_bytes: u64,
}
