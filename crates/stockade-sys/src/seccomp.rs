//! Installing a seccomp filter.
#![expect(unsafe_code, reason = "the kernel takes a filter by address and rustix does not wrap it")]
// UNSAFETY: one call of seccomp(2), which reads a program through a pointer and may open a
// descriptor.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// One instruction of a classic BPF program, in the kernel's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// How many instructions to skip if the comparison holds.
    pub jt: u8,
    /// How many instructions to skip if the comparison does not hold.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

// The kernel reads the program as an array of `sock_filter`.
const _: () = assert!(
    size_of::<Instruction>() == size_of::<libc::sock_filter>()
        && align_of::<Instruction>() == align_of::<libc::sock_filter>()
);

/// Sets no_new_privs: execve(2) grants no privileges to the calling thread and its later children.
///
/// This cannot be undone. Without it only a privileged thread may install a filter.
pub fn set_no_new_privs() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Installs a filter for the calling thread and its later children, in addition to existing ones.
///
/// The kernel verifies the program and refuses a malformed one with `EINVAL`. A filter cannot be
/// removed; if several filters apply, the most restrictive result wins. See seccomp(2).
pub fn install_filter(program: &[Instruction]) -> io::Result<()> {
    match install(program, 0)? {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Installs a filter that may return SECCOMP_RET_USER_NOTIF, and returns the listener that receives
/// the notifications, see [`crate::next_notification`]. Once every copy of the listener is closed,
/// such a call fails with `ENOSYS`.
///
/// A thread can have only one such filter; a second one fails with `EBUSY`.
pub fn install_notifying_filter(program: &[Instruction]) -> io::Result<OwnedFd> {
    match i32::try_from(install(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?) {
        // SAFETY: with this flag the kernel returns the number of a descriptor that it has just
        // opened, so no other code owns it.
        Ok(listener) if listener >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(listener) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A filter as the kernel takes it. It points to the instructions, which it only reads.
pub(crate) fn to_kernel(program: &[Instruction]) -> io::Result<libc::sock_fprog> {
    let len = u16::try_from(program.len())
        .map_err(|_| io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error()))?;
    Ok(libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() })
}

fn install(program: &[Instruction], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let filter = to_kernel(program)?;
    // SAFETY: `filter` points to `len` instructions that outlive the call, in the layout asserted
    // above; the kernel copies them before it returns and writes none of our memory.
    Ok(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    })
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// `return k`
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;

    #[test]
    fn kernel_refuses_a_malformed_program() {
        let jump_past_the_end = Instruction { code: 0x05, jt: 0, jf: 0, k: 7 };
        let end = Instruction { code: RETURN, jt: 0, jf: 0, k: ALLOW };
        let too_many = vec![end; 70_000];
        // In a separate thread, because no_new_privs cannot be unset.
        let answers = std::thread::spawn(move || {
            set_no_new_privs().unwrap();
            [
                install_filter(&[]),
                install_filter(&[jump_past_the_end, end]),
                install_filter(&too_many),
            ]
            .map(|answer| answer.unwrap_err().raw_os_error())
        });
        assert_eq!(answers.join().unwrap(), [Some(Errno::INVAL.raw_os_error()); 3]);
    }

    #[test]
    fn filter_refuses_a_call_that_worked_before_it() {
        let refuse_fsync = [
            Instruction { code: 0x20, jt: 0, jf: 0, k: 0 },
            Instruction { code: 0x15, jt: 0, jf: 1, k: libc::SYS_fsync as u32 },
            Instruction { code: RETURN, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOTNAM as u32 },
            Instruction { code: RETURN, jt: 0, jf: 0, k: ALLOW },
        ];
        let answers = std::thread::spawn(move || {
            let file = crate::sealed_file("filtered", b"").unwrap();
            let before = rustix::fs::fsync(&file);
            set_no_new_privs().unwrap();
            install_filter(&refuse_fsync).unwrap();
            (before, rustix::fs::fsync(&file))
        });
        assert_eq!(answers.join().unwrap(), (Ok(()), Err(Errno::NOTNAM)));
    }
}
