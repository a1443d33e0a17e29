//! Whether a system-call filter stands between this process and new namespaces.
#![expect(unsafe_code, reason = "no safe call makes a clone that must fail")]
// UNSAFETY: one call of clone(2) with flags that exclude each other; should it return twice all
// the same, the second return ends at once.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

/// What a filter answers to a clone into the namespaces of a wall; `None` where the kernel itself
/// is asked.
///
/// The flags exclude each other: a new user namespace cannot share its root directory with
/// whoever made it. The kernel answers `EINVAL` before it looks at rights or at any setting,
/// clone(2), so every other error was a filter's. Nothing is made.
pub fn clone_refused_by_filter() -> Option<io::Error> {
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_FS
        | libc::SIGCHLD;
    // SAFETY: the flags exclude each other, so no process is made. A kernel that made one would
    // give it a copy of our memory, and it goes no further than the next line.
    let answer = unsafe {
        libc::syscall(libc::SYS_clone, i64::from(flags), 0_usize, 0_usize, 0_usize, 0_usize)
    };
    match answer {
        // SAFETY: ends a process that has touched nothing, without running anything of ours.
        0 => unsafe { libc::_exit(0) },
        -1 => {
            let error = io::Error::last_os_error();
            (error.raw_os_error() != Some(libc::EINVAL)).then_some(error)
        }
        child => {
            let child = i32::try_from(child).ok().and_then(Pid::from_raw);
            // It has ended, or is about to; a status that cannot be had tells nothing.
            let _ = child.map(|child| waitpid(Some(child), WaitOptions::empty()));
            None
        }
    }
}

/// What a filter, or a kernel without it, answers to clone3(2), which a process is born in a cgroup
/// by. Nothing is made: an argument of no size is refused with `EINVAL`.
pub fn clone3_refused() -> Option<io::Error> {
    // SAFETY: the kernel looks at the size first, and reads nothing through a null pointer.
    unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::c_void>(), 0_usize) };
    let error = io::Error::last_os_error();
    (error.raw_os_error() != Some(libc::EINVAL)).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instruction, install_filter, set_no_new_privs};

    #[test]
    fn refused_clone3_is_seen() {
        let refuse_clone3 = [
            Instruction { code: 0x20, jt: 0, jf: 0, k: 0 },
            Instruction { code: 0x15, jt: 0, jf: 1, k: libc::SYS_clone3 as u32 },
            Instruction { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS as u32 },
            Instruction { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 },
        ];
        let answers = std::thread::spawn(move || {
            let before = clone3_refused().and_then(|error| error.raw_os_error());
            set_no_new_privs().unwrap();
            install_filter(&refuse_clone3).unwrap();
            (before, clone3_refused().and_then(|error| error.raw_os_error()))
        });
        assert_eq!(answers.join().unwrap(), (None, Some(libc::ENOSYS)));
    }

    #[test]
    fn filter_is_told_from_the_kernel() {
        let refuse_namespaces = [
            Instruction { code: 0x20, jt: 0, jf: 0, k: 0 },
            Instruction { code: 0x15, jt: 0, jf: 3, k: libc::SYS_clone as u32 },
            Instruction { code: 0x20, jt: 0, jf: 0, k: 16 },
            Instruction { code: 0x45, jt: 0, jf: 1, k: libc::CLONE_NEWUSER as u32 },
            Instruction { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::EPERM as u32 },
            Instruction { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 },
        ];
        let answers = std::thread::spawn(move || {
            let before = clone_refused_by_filter().map(|error| error.kind());
            set_no_new_privs().unwrap();
            install_filter(&refuse_namespaces).unwrap();
            (before, clone_refused_by_filter().map(|error| error.kind()))
        });
        assert_eq!(answers.join().unwrap(), (None, Some(io::ErrorKind::PermissionDenied)));
    }
}
