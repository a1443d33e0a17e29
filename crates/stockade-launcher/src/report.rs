//! Reports of the launcher to its caller.

use serde::{Deserialize, Serialize};

/// The part of a plan that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Before the clone.
    Outside,
    /// The clone and the id maps.
    Birth,
    /// Inside.
    Inside,
}

/// The first step that failed. No program was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the wall could not be built: {step} failed{}: {reason}", at(.target))]
pub struct Refusal {
    /// The part of the plan.
    pub phase: Phase,
    /// Its index in that part, from zero.
    pub index: usize,
    /// The step's name.
    pub step: String,
    /// The path it applies to, or empty.
    pub target: String,
    /// The errno, if the kernel refused.
    pub errno: Option<i32>,
    /// The error message.
    pub reason: String,
}

fn at(target: &str) -> String {
    if target.is_empty() { String::new() } else { format!(" at {target}") }
}

/// A message on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The first process inside exists. Its pidfd comes with this report by SCM_RIGHTS.
    Born {
        /// Its process id outside.
        process: i32,
    },
    /// Every step except the last is done. The descriptors named here come with this report by
    /// SCM_RIGHTS, in this order.
    Ready {
        /// The root of the scratch file system, for measuring its use from outside.
        scratch: bool,
        /// The seccomp listener that asks before a program starts. Programs wait for the host's
        /// answer.
        programs: bool,
    },
    /// A step failed.
    Refused(Refusal),
    /// Everything inside has ended. The launcher carries out the `after` steps once the host has
    /// closed its end, and then exits.
    Ended(Ending),
}

/// How the first process inside ended, and the usage of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// CPU time of all reaped processes inside, in microseconds.
    pub cpu_micros: u64,
    /// The peak memory of the largest process, in bytes.
    pub largest_bytes: u64,
}
