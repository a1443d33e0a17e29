//! Moving the calling process into new namespaces.
#![expect(unsafe_code, reason = "rustix marks unshare(2) unsafe for the sake of descriptor tables")]
// UNSAFETY: one system call that takes an integer, made only while the process has a single thread.

use std::io;

use crate::clone::{Namespaces, threads};

/// Moves the calling process into new namespaces.
///
/// The process must have a single thread, because unshare(2) moves only the calling one. With more
/// threads the call fails with `EBUSY`.
pub fn unshare_namespaces(namespaces: Namespaces) -> io::Result<()> {
    if threads()? != 1 {
        return Err(io::Error::from(rustix::io::Errno::BUSY));
    }
    // SAFETY: unshare(2) takes one integer. No namespace flag affects the descriptor table or
    // memory, so nothing that Rust holds changes.
    match unsafe { libc::unshare(namespaces.flags()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
