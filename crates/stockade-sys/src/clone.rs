//! Cloning the calling process into new namespaces.
#![expect(unsafe_code, reason = "clone(2) returns twice and nothing safe wraps it")]
// UNSAFETY: one raw system call per clone, made only while the process has one thread.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// Namespaces a child gets of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// User, mount, pid, network, ipc and host name: all that a wall needs at birth. Cgroups come
    /// later, by [`own_cgroups`], when the new process has entered its own.
    pub const WALL: Namespaces = Namespaces(
        (libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS) as u64,
    );

    /// A user namespace alone: a mapping of owners.
    pub const USERS: Namespaces = Namespaces(libc::CLONE_NEWUSER as u64);

    /// None: an ordinary child.
    pub const NONE: Namespaces = Namespaces(0);

    /// The network alone.
    #[cfg(feature = "probe")]
    pub const NETWORK: Namespaces = Namespaces(libc::CLONE_NEWNET as u64);

    /// Network and mounts.
    #[cfg(feature = "probe")]
    pub const NETWORK_AND_MOUNTS: Namespaces =
        Namespaces((libc::CLONE_NEWNET | libc::CLONE_NEWNS) as u64);

    /// Network and mounts, owned by a new user namespace.
    #[cfg(feature = "probe")]
    pub const UNPRIVILEGED_NETWORK_AND_MOUNTS: Namespaces =
        Namespaces((libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWNS) as u64);

    /// The flags as unshare(2) takes them.
    #[cfg(feature = "probe")]
    pub(crate) fn flags(self) -> libc::c_int {
        self.0 as libc::c_int
    }

    /// The same but for the network.
    #[cfg(feature = "weaken")]
    pub fn without_network(self) -> Namespaces {
        Namespaces(self.0 & !(libc::CLONE_NEWNET as u64))
    }

    /// The same but for the ipc namespace.
    #[cfg(feature = "weaken")]
    pub fn without_ipc(self) -> Namespaces {
        Namespaces(self.0 & !(libc::CLONE_NEWIPC as u64))
    }
}

/// Which of the two processes returns.
#[derive(Debug)]
pub enum Cloned {
    /// The caller.
    Original {
        /// The child's id, in the caller's pid namespace.
        child: Pid,
        /// A handle that stays the child's even after its id is used again.
        handle: OwnedFd,
    },
    /// The new process.
    Child,
}

/// Clones the calling process, as fork(2) does, into new namespaces and, where one is given,
/// directly into a version 2 cgroup.
///
/// The process must have one thread: a copy of locks held by other threads would never be
/// released. With more, the call is refused with `EBUSY`.
pub fn clone_process(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Cloned> {
    if threads()? != 1 {
        return Err(io::Error::from(rustix::io::Errno::BUSY));
    }
    let flags = namespaces.0 | libc::CLONE_PIDFD as u64;
    let mut handle: libc::c_int = -1;
    let answer = match cgroup {
        Some(directory) => clone_into(flags, directory, &mut handle),
        None => clone_plain(flags, &mut handle),
    };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        id => {
            let id = i32::try_from(id).ok().and_then(Pid::from_raw);
            let child = id.ok_or_else(|| io::Error::from(rustix::io::Errno::INVAL))?;
            // SAFETY: the kernel has just put this descriptor into our table and nobody else knows
            // its number, so this is its only owner.
            let handle = unsafe { OwnedFd::from_raw_fd(handle) };
            Ok(Cloned::Original { child, handle })
        }
    }
}

/// Makes the cgroups of the calling process the top of all that it and its children see of them.
pub fn own_cgroups() -> io::Result<()> {
    // SAFETY: unshare(2) takes one integer; with CLONE_NEWCGROUP alone it changes nothing but the
    // names under which cgroups are seen, and no descriptor.
    match unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// clone(2): unlike clone3(2) it passes the filters of container engines.
fn clone_plain(flags: u64, handle: &mut libc::c_int) -> libc::c_long {
    let flags = flags | libc::SIGCHLD as u64;
    let handle: *mut libc::c_int = handle;
    // SAFETY: without CLONE_VM the child gets a copy of our memory, and with a null stack it goes on
    // on its copy of ours, as after fork(2). The kernel writes one descriptor number through
    // `handle`, which lives in our frame, before it returns to the parent. Only one thread exists.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, handle, 0_usize, 0_usize) }
}

fn clone_into(flags: u64, directory: BorrowedFd<'_>, handle: &mut libc::c_int) -> libc::c_long {
    /// The argument of clone3(2) up to the field for a cgroup.
    #[repr(C)]
    struct Arguments {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let handle: *mut libc::c_int = handle;
    let arguments = Arguments {
        flags: flags | INTO_CGROUP,
        pidfd: handle as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: directory.as_raw_fd() as u64,
    };
    // SAFETY: as for clone(2) above; `arguments` has the layout of struct clone_args version 2,
    // outlives the call, and its size is passed. `directory` is borrowed, so it is open.
    unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<Arguments>()) }
}

/// How many threads the calling process has.
pub(crate) fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_several_threads_is_not_cloned() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        let refused = clone_process(Namespaces::NONE, None).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        drop(stop);
        let _ = other.join().unwrap();
    }
}
