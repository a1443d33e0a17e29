//! Limits where no cgroup can hold them: a sandbox is measured from outside, again and again.
//!
//! ```text
//!            every few milliseconds
//!   measure ────────────────────────▶ tasks or memory above the limit ──▶ the caller ends it
//!      │ cpu time
//!      ▼
//!   Ration ── Run / Pause ──▶ the caller sends SIGCONT / SIGSTOP
//! ```
//!
//! This is approximate, and a report has to say so: a sandbox can exceed a limit between two looks;
//! memory that no process maps, such as an unmapped memfd or what waits in a socket, is not seen;
//! and a process whose parent ignores SIGCHLD takes its cpu time with it when it ends. Rlimits bound
//! the first two.

mod aside;
mod exact;
mod process;
mod ration;
mod tree;

use std::io;
use std::time::Duration;

use rustix::process::Pid;

pub(crate) use aside::Aside;
pub(crate) use ration::{Action, Ration};

/// What a sandbox may use. Above it, a measurement need not be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The most tasks, as the kernel calls threads. No more than these are looked at, which bounds
    /// what a look costs.
    pub(crate) tasks: u64,
    /// The most memory.
    pub(crate) memory_bytes: u64,
}

/// What a sandbox uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measurement {
    /// The tasks. When there are more than allowed the look ended early: the other numbers then are
    /// those of a part.
    pub(crate) tasks: u64,
    /// Memory of its own: what is neither the content of a file nor free, swapped out or not.
    ///
    /// Below the limit it may count pages that processes share once for each of them. Above the
    /// limit each page counted once.
    pub(crate) memory_bytes: u64,
    /// The cpu time of everything that runs and of everything that was waited for.
    pub(crate) cpu_time: Duration,
}

/// Measures the process `init` and everything below it: in a pid namespace, all processes descend
/// from its first.
///
/// The caller runs as root or as the uid that started `init`, sees it under this number in `/proc`,
/// and has not waited for it, so that the number is still its own. Processes that end meanwhile are
/// left out. An error means that `init` is gone, or that the kernel lacks `CONFIG_PROC_CHILDREN`.
pub(crate) fn measure(init: Pid, bounds: Bounds) -> io::Result<Measurement> {
    let members = tree::walk(init, bounds.tasks)?;
    let tasks = members.iter().map(|member| member.stat.threads).sum();
    let estimate = members.iter().map(|member| member.memory_bytes).sum();
    // Pages shared after a fork count in every process, so the estimate is never too low; the exact
    // number costs a walk over all page tables and is worth it only where it decides.
    let memory_bytes = match tasks <= bounds.tasks && estimate > bounds.memory_bytes {
        true => exact::memory(&members),
        false => estimate,
    };
    let cpu_time = members.iter().map(|member| member.stat.cpu_time).sum();
    Ok(Measurement { tasks, memory_bytes, cpu_time })
}

#[cfg(test)]
mod tests;
