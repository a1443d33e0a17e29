//! Running a function of this program in a child process of its own.
#![expect(unsafe_code, reason = "_exit(2) has no safe wrapper")]
// UNSAFETY: the child closes descriptors that values of its copied memory still name, and then ends
// without dropping any of them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::Pid;

use crate::clone::{Forked, fork_process};
use crate::descriptors::close_inherited_except;

/// The exit code of a child whose function panicked or could not be prepared.
const FAILED: i32 = 101;

/// Runs `work` in a child process, which ends with it. The child has no descriptor of the caller
/// except `input` and `output`, which it gets as files, and copies of those in `kept`.
///
/// Returns the child's process id. The calling process must have a single thread.
pub fn run_in_child(
    input: OwnedFd,
    output: OwnedFd,
    kept: &[BorrowedFd<'_>],
    work: impl FnOnce(File, File, Vec<OwnedFd>),
) -> io::Result<Pid> {
    match fork_process()? {
        Forked::Original { child } => Ok(child),
        Forked::Child => {
            let worked = catch_unwind(AssertUnwindSafe(|| match take(&input, &output, kept) {
                Ok((reader, writer, kept)) => {
                    work(reader, writer, kept);
                    true
                }
                Err(_) => false,
            }));
            let code = if matches!(worked, Ok(true)) { 0 } else { FAILED };
            // SAFETY: _exit(2) does not return and runs no destructor, so no closed descriptor is
            // closed again.
            unsafe { libc::_exit(code) }
        }
    }
}

/// Moves the two descriptors to 0 and 1, closes every other except 2 and the kept ones, and returns
/// copies.
fn take(
    input: &OwnedFd,
    output: &OwnedFd,
    kept: &[BorrowedFd<'_>],
) -> io::Result<(File, File, Vec<OwnedFd>)> {
    // Neither may be 0 or 1 while the other is moved there.
    let input = rustix::io::fcntl_dupfd_cloexec(input, 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(output, 3)?;
    rustix::stdio::dup2_stdin(&input)?;
    rustix::stdio::dup2_stdout(&output)?;
    // The next call closes these two as well.
    std::mem::forget((input, output));
    // Values that own a closed number are never dropped: the caller's end with _exit(2), and ours are
    // forgotten.
    close_inherited_except(3, kept)?;
    let kept = kept.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?;
    let reader = io::stdin().as_fd().try_clone_to_owned()?;
    let writer = io::stdout().as_fd().try_clone_to_owned()?;
    // The copies are the only ends, so that closing them is the end for the other side.
    let nothing = File::open("/dev/null").map(OwnedFd::from);
    if let Ok(nothing) = nothing {
        rustix::stdio::dup2_stdin(&nothing)?;
        rustix::stdio::dup2_stdout(&nothing)?;
    }
    Ok((reader.into(), writer.into(), kept))
}
