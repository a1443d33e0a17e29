//! Closing the descriptors that a program must not inherit.
#![expect(unsafe_code, reason = "rustix does not wrap close_range(2)")]
// UNSAFETY: two calls of close_range(2). One only sets FD_CLOEXEC; the other closes descriptors,
// and runs as the first statement of a program, before any code owns one.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};

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
/// Call it at the start of a program, because the parent may have left descriptors open across exec,
/// or in a forked child that uses none of them. A descriptor from `first` on that was opened before
/// the call is invalid after it.
pub fn close_inherited_from(first: u32) -> io::Result<()> {
    close_inherited_except(first, &[])
}

/// The same, but leaves some descriptors open.
pub(crate) fn close_inherited_except(first: u32, kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<u32> = kept.iter().map(|it| it.as_raw_fd().cast_unsigned()).collect();
    numbers.sort_unstable();
    let mut first = first;
    for number in numbers.into_iter().chain([LAST + 1]) {
        if first < number {
            // SAFETY: close_range(2) takes three integers and touches none of our memory. The caller
            // has opened nothing yet or uses nothing of it again except what is kept, as the
            // documentation requires, so no `OwnedFd` that refers to a closed number is used.
            match unsafe { libc::syscall(libc::SYS_close_range, first, number - 1, 0) } {
                0 => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
        first = first.max(number.saturating_add(1));
    }
    Ok(())
}
