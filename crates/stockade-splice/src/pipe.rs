//! The pipes themselves.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The size of a pipe. What splice(2) takes from a socket occupies one page of the pipe for each
/// piece, however large.
const PIPE_BYTES: usize = 256 << 10;

/// A pipe that holds much and does not block: its reading and its writing end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // Refused to a user with too many pipes, pipe(7), and a small one is no faster.
    fcntl_setpipe_size(&writer, PIPE_BYTES)?;
    Ok((reader, writer))
}
