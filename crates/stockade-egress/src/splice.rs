//! Moves a server's bytes from its socket through pipes to the program without copying them into
//! this process.
//!
//! ```text
//! server ── take ──▶ stage ── counted, or refused ── pass ──▶ splice pipe ──▶ program
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use futures_core::future::BoxFuture;
use rustix::pipe::{SpliceFlags, splice};
use stockade_splice::{OpenSplice, SplicePipe, pipe};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::unix::pipe::Sender;

/// How much is read if bytes cannot be spliced.
const PAST_THE_MARK: usize = 4 << 10;

/// Resolves to whether the reading end reached the guest.
pub(crate) type Sent = BoxFuture<'static, bool>;

/// The splice pipe of a connection, and a private pipe before it.
#[derive(Debug)]
pub(crate) struct Splice {
    pipe: Sender,
    stage_in: OwnedFd,
    stage_out: OwnedFd,
}

impl Splice {
    /// Opens the splice pipe if possible. An error comes after it was opened, and ends the
    /// connection.
    pub(crate) fn open(open: &OpenSplice) -> io::Result<Option<(Splice, Sent)>> {
        let Ok((stage_out, stage_in)) = pipe() else { return Ok(None) };
        let Ok(SplicePipe { pipe, sent }) = open() else { return Ok(None) };
        let pipe = Sender::from_owned_fd(pipe)?;
        Ok(Some((Splice { pipe, stage_in, stage_out }, sent)))
    }

    /// Takes some bytes of a server; 0 is its end. All bytes taken before must have been passed on.
    pub(crate) async fn take(&self, server: &TcpStream, most: usize) -> io::Result<usize> {
        let take = || match move_bytes(server, &self.stage_in, most) {
            Ok(0) => self.copy(server),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.copy(server),
            taken => taken,
        };
        server.async_io(Interest::READABLE, take).await
    }

    /// The same by reading. splice(2) stops at the urgent-data mark, tcp(7): there it finds
    /// nothing, or a false end.
    fn copy(&self, server: &TcpStream) -> io::Result<usize> {
        let mut bytes = [0; PAST_THE_MARK];
        let read = rustix::io::read(server, &mut bytes)?;
        // The private pipe is empty and can hold this much.
        match rustix::io::write(&self.stage_in, &bytes[..read])? {
            written if written == read => Ok(read),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Moves `bytes` bytes, which the gate has counted, from the private pipe to the splice pipe.
    pub(crate) async fn pass(&self, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            self.pipe.writable().await?;
            match self.pipe.try_io(|| move_bytes(&self.stage_out, &self.pipe, bytes)) {
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
