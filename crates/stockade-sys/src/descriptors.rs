//! Closing what a program must not inherit.
#![expect(unsafe_code, reason = "rustix does not wrap close_range(2)")]
// UNSAFETY: two calls of close_range(2). One only marks descriptors; the other closes, and is for the
// first line of a program, when nothing in it owns a descriptor yet.

use std::io;

/// Marks every descriptor from `first` on to be closed by the next execve(2).
///
/// Nothing is closed yet, so descriptors that are in use stay valid until then.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range(2) takes three integers; with CLOSE_RANGE_CLOEXEC it closes nothing and
    // touches none of our memory.
    let answer =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes every descriptor from `first` on that this program was started with.
///
/// For the beginning of a program: whoever started it may have left descriptors open across exec.
/// Nothing opened before the call may be used after it.
pub fn close_inherited_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range(2) takes three integers and touches none of our memory. The caller has
    // opened nothing yet, as the documentation demands, so no owner is left with a closed number.
    match unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
