//! Whether a seccomp filter forbids this process to create namespaces.
#![expect(unsafe_code, reason = "no safe call makes a clone that must fail")]
// UNSAFETY: one call of clone(2) with flags that exclude each other; if it created a child anyway,
// the child exits at once.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

/// The error that a seccomp filter returns for a clone into the namespaces of a wall; `None` if no
/// filter stops the call.
///
/// The flags exclude each other: a new user namespace cannot share CLONE_FS with its creator. The
/// kernel returns `EINVAL` before it checks rights or settings, clone(2), so any other error comes
/// from a filter. The call creates nothing.
pub fn clone_refused_by_filter() -> Option<io::Error> {
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_FS
        | libc::SIGCHLD;
    // SAFETY: the flags exclude each other, so the kernel creates no process. If it did, the child
    // would have a copy of our memory and would run only the next line.
    let answer = unsafe {
        libc::syscall(libc::SYS_clone, i64::from(flags), 0_usize, 0_usize, 0_usize, 0_usize)
    };
    match answer {
        // SAFETY: ends a process that has touched nothing, without running destructors or exit
        // handlers.
        0 => unsafe { libc::_exit(0) },
        -1 => {
            let error = io::Error::last_os_error();
            (error.raw_os_error() != Some(libc::EINVAL)).then_some(error)
        }
        child => {
            let child = i32::try_from(child).ok().and_then(Pid::from_raw);
            // The child has ended or is about to; its status does not matter.
            let _ = child.map(|child| waitpid(Some(child), WaitOptions::empty()));
            None
        }
    }
}

/// The error that a seccomp filter, or a kernel without the call, returns for clone3(2), which
/// creates a process directly in a cgroup. The call creates nothing: the kernel refuses an argument
/// of size zero with `EINVAL`.
pub fn clone3_refused() -> Option<io::Error> {
    // SAFETY: the kernel checks the size first, and reads nothing through the null pointer.
    unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::c_void>(), 0_usize) };
    let error = io::Error::last_os_error();
    (error.raw_os_error() != Some(libc::EINVAL)).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instruction, install_filter, set_no_new_privs};

    #[test]
    fn filter_that_refuses_clone3_is_detected() {
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
    fn error_of_a_filter_differs_from_the_kernels() {
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
