//! Leaving namespaces without a new process.
#![expect(unsafe_code, reason = "rustix marks unshare(2) unsafe for the sake of descriptor tables")]
// UNSAFETY: one system call that takes an integer, made only while the process has one thread.

use std::io;

use crate::clone::{Namespaces, threads};

/// Moves the calling process into new namespaces of its own.
///
/// The process must have one thread, because the others would stay behind. With more, the call is
/// refused with `EBUSY`.
pub fn leave_namespaces(namespaces: Namespaces) -> io::Result<()> {
    if threads()? != 1 {
        return Err(io::Error::from(rustix::io::Errno::BUSY));
    }
    // SAFETY: unshare(2) takes one integer. None of the namespaces is a table of descriptors or
    // memory, so nothing that Rust holds changes.
    match unsafe { libc::unshare(namespaces.flags()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
