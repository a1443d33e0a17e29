//! Bytes of a server on their way past this process: from its socket through pipes to the program.
//!
//! ```text
//! server ── take ──▶ stage ── counted, or refused ── pass ──▶ lane ──▶ program
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use futures_core::future::BoxFuture;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use stockade_provider::{OpenLane, OpensLane};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::unix::pipe::Sender;

/// The size of the stage in memory of programs. What comes from a socket takes one of its pages for
/// each piece, however large.
const STAGE_BYTES: usize = 256 << 10;

/// How much is read where bytes cannot be moved.
const PAST_THE_MARK: usize = 4 << 10;

/// Resolves to whether the program's end was told.
pub(crate) type Told = BoxFuture<'static, bool>;

/// A pipe to a program, and one before it that nobody else has.
#[derive(Debug)]
pub(crate) struct Lane {
    lane: Sender,
    stage_in: OwnedFd,
    stage_out: OwnedFd,
}

impl Lane {
    /// Opens a lane where there can be one, with whether the program's end could be told of it. An
    /// error comes after it was opened, and is the end of the connection.
    pub(crate) fn open(opener: &dyn OpensLane) -> io::Result<Option<(Lane, Told)>> {
        let Ok((stage_out, stage_in)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else {
            return Ok(None);
        };
        // Refused to a user with too many pipes, pipe(7).
        if fcntl_setpipe_size(&stage_in, STAGE_BYTES).is_err() {
            return Ok(None);
        }
        let Ok(OpenLane { pipe, told }) = opener.open() else { return Ok(None) };
        let lane = Sender::from_owned_fd(pipe)?;
        Ok(Some((Lane { lane, stage_in, stage_out }, told)))
    }

    /// Takes some bytes of a server; nothing is its end. All that was taken must have been passed.
    pub(crate) async fn take(&self, server: &TcpStream, most: usize) -> io::Result<usize> {
        let take = || match move_bytes(server, &self.stage_in, most) {
            Ok(0) => self.copy(server),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.copy(server),
            taken => taken,
        };
        server.async_io(Interest::READABLE, take).await
    }

    /// The same by reading. splice(2) does not pass the mark of urgent data, tcp(7): there it finds
    /// nothing, or an end that is none.
    fn copy(&self, server: &TcpStream) -> io::Result<usize> {
        let mut bytes = [0; PAST_THE_MARK];
        let read = rustix::io::read(server, &mut bytes)?;
        // The stage is empty, and takes so little at once.
        match rustix::io::write(&self.stage_in, &bytes[..read])? {
            written if written == read => Ok(read),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Passes on so many bytes that were taken.
    pub(crate) async fn pass(&self, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            self.lane.writable().await?;
            match self.lane.try_io(|| move_bytes(&self.stage_out, &self.lane, bytes)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(passed) => bytes -= passed,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn move_bytes(from: impl AsFd, to: impl AsFd, most: usize) -> io::Result<usize> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    Ok(splice(from, None, to, None, most, flags)?)
}
