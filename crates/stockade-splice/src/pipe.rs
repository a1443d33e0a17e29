//! Creates the pipes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The size of a pipe. Each chunk that splice(2) takes from a socket occupies one page slot of the
/// pipe, whatever its size.
const PIPE_BYTES: usize = 256 << 10;

/// Creates a large non-blocking pipe and returns its reading and its writing end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // Fails for a user with too many pipes, pipe(7); a small pipe would be no faster than the
    // stream.
    fcntl_setpipe_size(&writer, PIPE_BYTES)?;
    Ok((reader, writer))
}
