//! The socket to the guest: bytes, and descriptors beside them.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

use super::ledger::{Beside, Ledger};

/// The socket to the guest. Descriptors go one way only: what came beside the guest's bytes is
/// closed by the kernel, because nobody asks for it.
#[derive(Debug)]
pub(super) struct Outlet {
    socket: UnixStream,
    ledger: Arc<Ledger>,
    /// What goes beside the next byte.
    beside: Option<Beside>,
}

impl Outlet {
    pub(super) fn new(socket: UnixStream, ledger: Arc<Ledger>) -> Outlet {
        Outlet { socket, ledger, beside: None }
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }

    /// Writes some of these bytes, and what has to go beside them.
    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.beside.is_none() {
            self.beside = self.ledger.take_beside();
        }
        while let Some(Beside { descriptor, .. }) = &self.beside {
            ready!(self.socket.poll_write_ready(context))?;
            let send = || send_with(&self.socket, bytes, descriptor.as_fd());
            match self.socket.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(sent) => {
                    self.tell(true);
                    return Poll::Ready(Ok(sent));
                }
                // Too many are on their way for this user, unix(7), some of them perhaps from
                // another sandbox. The bytes go without it.
                Err(_) => self.tell(false),
            }
        }
        Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
    }

    /// Says whether what goes beside has gone, and closes it here.
    fn tell(&mut self, has_gone: bool) {
        if let Some(Beside { told, .. }) = self.beside.take() {
            // Whoever asked may have ended meanwhile.
            let _ = told.send(has_gone);
        }
    }
}

fn send_with(
    socket: impl AsFd,
    bytes: &[IoSlice<'_>],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !beside.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, bytes, &mut beside, SendFlags::NOSIGNAL)?)
}
