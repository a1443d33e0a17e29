//! What a sandbox's processes use, read from `/proc`.
//!
//! Memory that no process maps, such as an unmapped memfd or what waits in a socket, is not seen; and
//! a process whose parent ignores SIGCHLD takes its cpu time with it when it ends. Rlimits bound the
//! first.

mod exact;
mod process;
mod tree;

use std::io;

use rustix::process::Pid;
use stockade_watchdog::Measurement;

/// What a sandbox may use. Above it, a measurement need not be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The most tasks, as the kernel calls threads. No more than these are looked at, which bounds
    /// what a look costs.
    pub(crate) tasks: u64,
    /// The most memory.
    pub(crate) memory_bytes: u64,
}

/// Measures the process `init` and everything below it: in a pid namespace, all processes descend
/// from its first.
///
/// Below the limit, memory may count pages that processes share once for each of them. Above the
/// limit each page counted once.
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
