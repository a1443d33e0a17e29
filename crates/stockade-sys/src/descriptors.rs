//! Closing the descriptors that a program must not inherit.
#![expect(unsafe_code, reason = "rustix does not wrap close_range(2)")]
// UNSAFETY: two calls of close_range(2). One only sets FD_CLOEXEC; the other closes descriptors,
// and runs as the first statement of a program, before any code owns one.

use std::io;
use std::ops::RangeInclusive;

/// The highest number that a descriptor can have. gVisor reads a larger one as negative and refuses
/// the range.
const LAST: u32 = i32::MAX.cast_unsigned();

/// Sets FD_CLOEXEC on every descriptor from `first` on.
///
/// The descriptors stay open and usable until the next execve(2).
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    close_on_exec(first..=LAST)
}

/// Sets FD_CLOEXEC on every descriptor with one of these numbers.
pub fn close_on_exec(numbers: RangeInclusive<u32>) -> io::Result<()> {
    let (first, last) = numbers.into_inner();
    // SAFETY: close_range(2) takes three integers; with CLOSE_RANGE_CLOEXEC it closes nothing and
    // touches none of our memory.
    let answer =
        unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes every inherited descriptor from `first` on.
///
/// Call it at the start of a program: the parent may have left descriptors open across exec. Or in
/// a copy of the process that uses none of them again. A descriptor opened before the call is
/// invalid after it.
pub fn close_inherited_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range(2) takes three integers and touches none of our memory. The caller has
    // opened nothing yet or uses nothing of it again, as the documentation requires, so no `OwnedFd`
    // that refers to a closed number is used.
    match unsafe { libc::syscall(libc::SYS_close_range, first, LAST, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
