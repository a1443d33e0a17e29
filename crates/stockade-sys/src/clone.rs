//! Cloning the calling process into new namespaces.
#![expect(unsafe_code, reason = "clone(2) returns twice and nothing safe wraps it")]
// UNSAFETY: one raw system call per clone, made only while the process has a single thread.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// The new namespaces that a child gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// User, mount, PID, network, IPC and UTS: what a wall needs from the start. The cgroup
    /// namespace comes later, with [`unshare_cgroups`], once the new process is in its cgroup.
    pub const WALL: Namespaces = Namespaces(
        (libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS) as u64,
    );

    /// A user namespace alone, for an id mapping.
    pub const USERS: Namespaces = Namespaces(libc::CLONE_NEWUSER as u64);

    /// No new namespace: an ordinary child.
    pub const NONE: Namespaces = Namespaces(0);

    /// A network namespace alone.
    #[cfg(feature = "probe")]
    pub const NETWORK: Namespaces = Namespaces(libc::CLONE_NEWNET as u64);

    /// Network and mount namespaces.
    #[cfg(feature = "probe")]
    pub const NETWORK_AND_MOUNTS: Namespaces =
        Namespaces((libc::CLONE_NEWNET | libc::CLONE_NEWNS) as u64);

    /// Network and mount namespaces, owned by a new user namespace.
    #[cfg(feature = "probe")]
    pub const UNPRIVILEGED_NETWORK_AND_MOUNTS: Namespaces =
        Namespaces((libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWNS) as u64);

    /// The flags for unshare(2).
    #[cfg(feature = "probe")]
    pub(crate) fn flags(self) -> libc::c_int {
        self.0 as libc::c_int
    }

    /// The same set without the network namespace.
    #[cfg(feature = "weaken")]
    pub fn without_network(self) -> Namespaces {
        Namespaces(self.0 & !(libc::CLONE_NEWNET as u64))
    }

    /// The same set without the IPC namespace.
    #[cfg(feature = "weaken")]
    pub fn without_ipc(self) -> Namespaces {
        Namespaces(self.0 & !(libc::CLONE_NEWIPC as u64))
    }
}

/// Which of the two processes `clone_process` returns in.
#[derive(Debug)]
pub enum Cloned {
    /// The caller.
    Original {
        /// The child's process id, in the caller's PID namespace.
        child: Pid,
        /// A pidfd: it refers to the child even after the kernel reuses its process id.
        handle: OwnedFd,
    },
    /// The new process.
    Child,
}

/// Which of the two processes `fork_process` returns in.
#[derive(Debug)]
pub enum Forked {
    /// The caller.
    Original {
        /// The child's process id.
        child: Pid,
    },
    /// The new process.
    Child,
}

/// Copies the calling process, as fork(2) does. Unlike [`clone_process`] it needs no pidfds, which
/// gVisor lacks.
///
/// The process must have a single thread, as for [`clone_process`].
pub fn fork_process() -> io::Result<Forked> {
    if threads()? != 1 {
        return Err(io::Error::from(rustix::io::Errno::BUSY));
    }
    match clone_plain(0, &mut -1) {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        id => Ok(Forked::Original { child: child(id)? }),
    }
}

/// Clones the calling process, as fork(2) does, into new namespaces and, if `cgroup` is given,
/// directly into that version 2 cgroup.
///
/// The process must have a single thread: the child would copy locks that other threads hold and
/// that nothing in the child releases. With more threads the call fails with `EBUSY`.
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
            let child = child(id)?;
            if handle < 0 {
                // A kernel without pidfds ignores the flag, and the caller relies on the handle.
                let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
                return Err(io::Error::from(rustix::io::Errno::NOSYS));
            }
            // SAFETY: the kernel has just added this descriptor to our table and no other code
            // knows its number, so this is its only owner.
            let handle = unsafe { OwnedFd::from_raw_fd(handle) };
            Ok(Cloned::Original { child, handle })
        }
    }
}

/// Moves the calling process into a new cgroup namespace: its current cgroup becomes the root of
/// the hierarchy that it and its children see. See cgroup_namespaces(7).
pub fn unshare_cgroups() -> io::Result<()> {
    // SAFETY: unshare(2) takes one integer; CLONE_NEWCGROUP alone changes only how cgroup paths are
    // displayed, and no descriptor.
    match unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn child(id: libc::c_long) -> io::Result<Pid> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::from(rustix::io::Errno::INVAL))
}

/// Uses clone(2), not clone3(2): the seccomp filters of container engines allow it.
fn clone_plain(flags: u64, handle: &mut libc::c_int) -> libc::c_long {
    let flags = flags | libc::SIGCHLD as u64;
    let handle: *mut libc::c_int = handle;
    // SAFETY: without CLONE_VM the child gets a copy of our memory, and with a null stack it
    // continues on its copy of our stack, as after fork(2). The kernel writes one descriptor number
    // through `handle`, which lives in our frame, before it returns to the parent. Only one thread
    // exists.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, handle, 0_usize, 0_usize) }
}

fn clone_into(flags: u64, directory: BorrowedFd<'_>, handle: &mut libc::c_int) -> libc::c_long {
    /// The argument of clone3(2), up to the `cgroup` field.
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

/// The number of threads of the calling process.
pub(crate) fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_fails_in_a_process_with_several_threads() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        let refused = clone_process(Namespaces::NONE, None).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        drop(stop);
        let _ = other.join().unwrap();
    }
}
