//! Walks the descendants of a process.

use std::collections::BTreeSet;
use std::io;

use rustix::process::Pid;

use super::process::{Process, Stat};

/// A process of the sandbox at the time of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) stat: Stat,
    /// With every shared page in full.
    pub(super) memory_bytes: u64,
}

/// The process and its descendants, until there are more tasks than `most_tasks`.
pub(super) fn walk(init: Pid, most_tasks: u64) -> io::Result<Vec<Member>> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let process = Process::open(init)?.ok_or_else(gone)?;
    if !process.tells_children(init)? {
        process.stat()?.ok_or_else(gone)?;
        let text = "the kernel does not tell the children of a process";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let mut members = Vec::new();
    let mut tasks: u64 = 0;
    // Pids that are queued or done, and those of them that are members.
    let mut known = BTreeSet::from([init.as_raw_nonzero()]);
    let mut accepted = BTreeSet::new();
    let mut left = vec![init];
    while let Some(pid) = left.pop() {
        let Some(process) = Process::open(pid)? else { continue };
        let Some(stat) = process.stat()? else { continue };
        // A child may have ended since its parent was read, and its pid may belong to an unrelated
        // process, whose parent is no member. An orphan is reparented to an ancestor, and ancestors
        // come first.
        if pid != init && !accepted.contains(&stat.parent) {
            continue;
        }
        accepted.insert(pid.as_raw_nonzero().get());
        tasks = tasks.saturating_add(stat.threads);
        let memory_bytes = process.memory()?.unwrap_or(0);
        members.push(Member { pid, stat, memory_bytes });
        if tasks > most_tasks {
            break;
        }
        for child in process.children()? {
            if known.insert(child.as_raw_nonzero()) {
                left.push(child);
            }
        }
    }
    Ok(members)
}
