//! Measures a sandbox's processes through `/proc`.
//!
//! It does not see memory that no process maps, such as an unmapped memfd or data queued in a
//! socket; rlimits bound that. A process whose parent ignores SIGCHLD takes its CPU time with it
//! when it ends.

mod exact;
mod process;
mod tree;

use std::io;

use rustix::process::Pid;
use stockade_watchdog::Measurement;

/// The limits of a sandbox. Above them a measurement may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The maximum number of tasks, which is the kernel's word for threads. A measurement stops
    /// there, which bounds its cost.
    pub(crate) tasks: u64,
    /// The memory limit.
    pub(crate) memory_bytes: u64,
}

/// Measures the process `init` and all its descendants, which are all processes of a pid namespace.
///
/// Below the memory limit, a page that processes share may count once for each of them. Above the
/// limit each page counts once.
///
/// The caller must be root or the uid that started `init`, see it under this pid in `/proc`, and
/// not have reaped it, so that the pid is not reused. Processes that end meanwhile are omitted. An
/// error means that `init` is gone, or that the kernel lacks `CONFIG_PROC_CHILDREN`.
pub(crate) fn measure(init: Pid, bounds: Bounds) -> io::Result<Measurement> {
    let members = tree::walk(init, bounds.tasks)?;
    let tasks = members.iter().map(|member| member.stat.threads).sum();
    let estimate = members.iter().map(|member| member.memory_bytes).sum();
    // Pages shared after a fork count in every process, so the estimate is never too low. The exact
    // number needs a walk over all page tables, so it is read only if the estimate exceeds the
    // limit.
    let memory_bytes = match tasks <= bounds.tasks && estimate > bounds.memory_bytes {
        true => exact::memory(&members),
        false => estimate,
    };
    let cpu_time = members.iter().map(|member| member.stat.cpu_time).sum();
    Ok(Measurement { tasks, memory_bytes, cpu_time })
}

#[cfg(test)]
mod tests;
