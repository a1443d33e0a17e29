//! Handing a system-call filter to the kernel.
#![expect(unsafe_code, reason = "the kernel takes a filter by address and rustix does not wrap it")]
// UNSAFETY: one call of seccomp(2), which reads a program through a pointer and may open a descriptor.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// One instruction of a classic BPF program, laid out as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// How many instructions a comparison skips when it holds.
    pub jt: u8,
    /// How many instructions a comparison skips when it does not hold.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

// The program is read by the kernel as an array of its own type.
const _: () = assert!(
    size_of::<Instruction>() == size_of::<libc::sock_filter>()
        && align_of::<Instruction>() == align_of::<libc::sock_filter>()
);

/// Promises for the calling thread and all its later children that execve(2) grants no rights.
///
/// It cannot be taken back. Without it only a privileged thread may install a filter.
pub fn set_no_new_privs() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Puts a filter over the calling thread and all its later children, on top of those already there.
///
/// The kernel checks the program and refuses a malformed one with `EINVAL`. A filter cannot be
/// removed; of several, the most restrictive answer counts. See seccomp(2).
pub fn install_filter(program: &[Instruction]) -> io::Result<()> {
    match install(program, 0)? {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The same for a filter some of whose answers are to ask: the questions come to the descriptor,
/// see [`crate::next_question`]. When it is closed everywhere, a call that asks fails with `ENOSYS`.
///
/// A thread has at most one such filter over it; a second is refused with `EBUSY`.
pub fn install_asking_filter(program: &[Instruction]) -> io::Result<OwnedFd> {
    match i32::try_from(install(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?) {
        // SAFETY: with this flag the kernel answers the number of a descriptor that it has just
        // opened, so nothing else owns it.
        Ok(listener) if listener >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(listener) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn install(program: &[Instruction], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let len = u16::try_from(program.len())
        .map_err(|_| io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error()))?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
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
    fn program_the_kernel_cannot_take_is_refused() {
        let jump_past_the_end = Instruction { code: 0x05, jt: 0, jf: 0, k: 7 };
        let end = Instruction { code: RETURN, jt: 0, jf: 0, k: ALLOW };
        let too_many = vec![end; 70_000];
        // In a thread of its own, because the promise cannot be taken back.
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
    fn filter_answers_a_call_that_worked_before_it() {
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
