//! Drops privileges and sets limits.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::OpenTreeFlags;
use rustix::process::{DumpableBehavior, Resource as Limited, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::outside::check_procfs;
use crate::plan::Resource;

/// The highest capability number that a kernel may have.
const MOST_CAPABILITIES: u32 = 64;

/// Changes all ids of this process and keeps its capabilities in the user namespace.
pub fn become_user(user: u32, group: u32) -> io::Result<()> {
    let (user, group) =
        (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(group));
    // An unprivileged caller has given up setgroups(2), and then the groups stay the caller's.
    let mut answer = String::new();
    let path = Path::new("/proc/self/setgroups");
    let mut file = File::open(path)?;
    check_procfs(&file, path)?;
    file.read_to_string(&mut answer)?;
    if answer.trim() != "deny" {
        rustix::thread::set_thread_groups(&[])?;
    }
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    rustix::thread::set_keep_capabilities(false)?;
    // Changing ids keeps the permitted set and clears the effective one, capabilities(7).
    let permitted = rustix::thread::capabilities(None)?.permitted;
    let sets =
        CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Opens this process's own `oom_score_adj` on a separate procfs mount: `/proc` cannot become
/// read-only while one of its files is open for writing.
///
/// A process that has changed its ids owns its files in `/proc` only while it is dumpable, proc(5).
/// No other process runs inside yet that could exploit that.
pub(super) fn own_oom_score() -> io::Result<File> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let proc = rustix::mount::open_tree(CWD, "/proc", flags)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(&proc, "self/oom_score_adj", flags, Mode::empty());
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(File::from(opened?))
}

pub(super) fn limit(resource: Resource, amount: u64) -> io::Result<()> {
    let limited = match resource {
        Resource::Core => Limited::Core,
        Resource::OpenFiles => Limited::Nofile,
        Resource::Processes => Limited::Nproc,
        Resource::FileSize => Limited::Fsize,
        Resource::AddressSpace => Limited::As,
        Resource::CpuSeconds => Limited::Cpu,
        Resource::LockedMemory => Limited::Memlock,
        Resource::MessageQueues => Limited::Msgqueue,
        Resource::PendingSignals => Limited::Sigpending,
        Resource::Data => Limited::Data,
    };
    let new = Rlimit { current: Some(amount), maximum: Some(amount) };
    Ok(rustix::process::setrlimit(limited, new)?)
}

/// Dies when the launcher does. Must follow the last change of ids, which resets this, prctl(2).
pub(super) fn die_with_parent(lifeline: &OwnedFd) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the launcher died before, no signal comes, but its end of the pipe is closed.
    let mut watched = [PollFd::new(lifeline, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut watched, Some(&now))? {
        0 => Ok(()),
        _ => Err(super::wrong("the launcher is gone")),
    }
}

/// Drops every capability from every set. The bounding set first: dropping from it requires a
/// capability.
pub fn seal() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let has_any = !rustix::thread::capabilities(None)?.permitted.is_empty();
    for number in 0..MOST_CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Without capabilities this process cannot drop from the bounding set, but
            // no_new_privs, set last, lets execve(2) grant only what the process has,
            // capabilities(7).
            Err(rustix::io::Errno::PERM) if !has_any => break,
            // The kernel has no capability of this or a higher number. For one that it has, EINVAL
            // means that the capability was not dropped.
            Err(rustix::io::Errno::INVAL) if !is_known(capability) => break,
            Err(error) => return Err(error.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    let left = rustix::thread::capabilities(None)?;
    if left != sets {
        return Err(super::wrong("capabilities are left"));
    }
    stockade_sys::set_no_new_privs()
}

/// Whether the kernel has a capability.
fn is_known(capability: CapabilitySet) -> bool {
    // The only error is EINVAL, for a number beyond the last, prctl(2).
    rustix::thread::capability_is_in_bounding_set(capability).is_ok()
}
