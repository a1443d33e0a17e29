//! Raw system calls for the executable that attacks walls from inside. Shipped programs are built
//! without this module.
#![expect(
    unsafe_code,
    reason = "a probe makes calls that no safe wrapper offers, and invalid ones"
)]
// UNSAFETY: raw system calls whose pointers are to memory of the caller; calls that would change
// this process's memory, its stack or its handlers are refused before they are made.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// One argument of a call.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A number, a flag or a descriptor. A position-independent executable has nothing mapped below
    /// 4 GiB, so it is never a valid address of this process.
    Number(u32),
    /// A negative number; as an address it belongs to the kernel.
    Minus(u32),
    /// A text that ends with a zero byte.
    Text(&'a CStr),
    /// Memory that the call may read and write, up to its length.
    Bytes(&'a mut [u8]),
}

impl Argument<'_> {
    fn word(&mut self) -> libc::c_long {
        match self {
            Argument::Number(number) => libc::c_long::from(*number),
            Argument::Minus(number) => -libc::c_long::from(*number),
            Argument::Text(text) => text.as_ptr() as libc::c_long,
            Argument::Bytes(bytes) => bytes.as_mut_ptr() as libc::c_long,
        }
    }
}

/// Calls that could change memory, the stack, handlers or descriptors that Rust relies on.
const UNSOUND: [libc::c_long; 17] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    libc::SYS_remap_file_pages,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_shmat,
    libc::SYS_shmdt,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_close,
    libc::SYS_close_range,
];

/// Makes one system call, by its number, with at most six arguments.
///
/// Each buffer must be as long as the call expects; the probes' table of calls ensures it.
pub fn raw_call(number: libc::c_long, arguments: &mut [Argument<'_>]) -> io::Result<i64> {
    if UNSOUND.contains(&number) || arguments.len() > 6 {
        return Err(io::Error::from_raw_os_error(libc::EDOM));
    }
    let mut words = [0; 6];
    for (word, argument) in words.iter_mut().zip(arguments) {
        *word = argument.word();
    }
    let [a, b, c, d, e, f] = words;
    // SAFETY: the call is not one that changes our memory by itself; each pointer among the words
    // is to something that is borrowed until the call returns, and the numbers are not addresses.
    checked(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// Clones with clone3(2) and these flags; the child ends at once.
pub fn clone3_and_end(flags: u64) -> io::Result<i64> {
    // The first eight fields of struct clone_args: flags first, the exit signal fifth.
    let arguments: [u64; 8] = [flags, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    // SAFETY: `arguments` has the layout of struct clone_args version 0 and outlives the call;
    // without CLONE_VM the child has a copy of our memory and only ends.
    let answer = unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), 64_usize) };
    if answer == 0 {
        // SAFETY: ends the child without running any other code of this process.
        unsafe { libc::_exit(0) };
    }
    checked(answer)
}

/// Maps a file MAP_SHARED for writing, changes its first byte and unmaps it.
pub fn write_through_map(file: BorrowedFd<'_>) -> io::Result<()> {
    const BYTES: usize = 4096;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
    let place = unsafe {
        let shared = libc::MAP_SHARED;
        libc::mmap(ptr::null_mut(), BYTES, protection, shared, file.as_raw_fd(), 0)
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping has one page and the caller's file at least one byte; no other code knows
    // the address, and the same range is unmapped.
    unsafe {
        place.cast::<u8>().write_volatile(b'!');
        libc::munmap(place, BYTES);
    }
    Ok(())
}

/// Calls getpid with `int 0x80`, the 32-bit calling convention.
#[cfg(target_arch = "x86_64")]
pub fn getpid_by_int80() -> i64 {
    let answer: i64;
    // SAFETY: getpid has no arguments and touches no memory; the kernel may clear r8 to r11.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") 20_i64 => answer,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            options(nostack),
        );
    }
    answer
}

fn checked(answer: libc::c_long) -> io::Result<i64> {
    match answer {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_call_passes_its_arguments() {
        let pid = raw_call(libc::SYS_getpid, &mut []).unwrap();
        assert_eq!(pid, i64::from(std::process::id()));
        let mut bytes = [0; 8];
        let filled = raw_call(
            libc::SYS_getrandom,
            &mut [Argument::Bytes(&mut bytes), Argument::Number(8), Argument::Number(0)],
        );
        assert_eq!((filled.unwrap(), bytes != [0; 8]), (8, true));
        let refused = raw_call(libc::SYS_chdir, &mut [Argument::Text(c"/nowhere")]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn calls_that_would_change_this_process_are_refused() {
        for number in UNSOUND {
            let refused = raw_call(number, &mut []).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EDOM), "{number}");
        }
    }
}
