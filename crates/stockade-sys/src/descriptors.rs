//! Closing what a program must not inherit.
#![expect(unsafe_code, reason = "rustix does not wrap close_range(2)")]
// UNSAFETY: one call of close_range(2) that only marks descriptors, so nobody's owner is cheated.

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
