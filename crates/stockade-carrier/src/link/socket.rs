//! The socket transport: bytes to a guest on this machine, and splice pipes sent by SCM_RIGHTS.
//!
//! The host creates each pipe and keeps its writing end; the guest receives the reading end, and
//! sends nothing through it. A link over any other byte stream has no splice pipes.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use rustix::io::write;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use stockade_splice::{OpenSplice, SplicePipe, pipe};
use stockade_wire::SpliceHeader;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

/// The requested size of the send buffer, if `net.core.wmem_max` allows it. Each side then moves
/// several frames per wake-up.
const SOCKET_BYTES: usize = 1 << 20;

/// The splice pipes that wait to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct SplicePipes(Arc<Mutex<VecDeque<Unsent>>>);

/// The reading end of a splice pipe, and the channel that reports whether it was sent.
#[derive(Debug)]
struct Unsent {
    reader: OwnedFd,
    sent: oneshot::Sender<bool>,
}

impl SplicePipes {
    /// Returns the function that opens the splice pipe of a stream, after `written` bytes of it.
    pub(super) fn opener(&self, stream: u32, written: Arc<AtomicU64>) -> OpenSplice {
        let pipes = self.clone();
        Arc::new(move || {
            let (reader, writer) = pipe()?;
            let header = SpliceHeader { stream, after: written.load(Ordering::Relaxed) };
            // Cannot block: the pipe is empty.
            write(&writer, &header.to_bytes())?;
            let (sent, outcome) = oneshot::channel();
            pipes
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(Unsent { reader, sent });
            // The sender is dropped when the link ends.
            let sent = Box::pin(async { outcome.await.unwrap_or(false) });
            Ok(SplicePipe { pipe: writer, sent })
        })
    }

    fn next(&self) -> Option<Unsent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The socket to the guest. It receives no descriptors: the kernel closes those that the guest
/// sends, because this end never uses recvmsg(2).
#[derive(Debug)]
pub(super) struct SocketTransport {
    socket: UnixStream,
    pipes: SplicePipes,
    /// The pipe to send with the next byte.
    unsent: Option<Unsent>,
}

impl SocketTransport {
    pub(super) fn new(socket: std::os::unix::net::UnixStream) -> io::Result<SocketTransport> {
        socket.set_nonblocking(true)?;
        // The kernel may refuse; the default size is then used.
        let _ = set_socket_send_buffer_size(&socket, SOCKET_BYTES);
        let socket = UnixStream::from_std(socket)?;
        Ok(SocketTransport { socket, pipes: SplicePipes::default(), unsent: None })
    }

    pub(super) fn pipes(&self) -> SplicePipes {
        self.pipes.clone()
    }

    /// Reports whether the pipe was sent, and closes its reading end here.
    fn report(&mut self, was_sent: bool) {
        if let Some(Unsent { sent, .. }) = self.unsent.take() {
            // The connection may have ended meanwhile.
            let _ = sent.send(was_sent);
        }
    }
}

impl AsyncRead for SocketTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for SocketTransport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.unsent.is_none() {
            this.unsent = this.pipes.next();
        }
        while let Some(Unsent { reader, .. }) = &this.unsent {
            ready!(this.socket.poll_write_ready(context))?;
            let send = || send_with(&this.socket, bytes, reader.as_fd());
            match this.socket.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(sent) => {
                    this.report(true);
                    return Poll::Ready(Ok(sent));
                }
                // Too many descriptors of this user are in flight, unix(7), perhaps from another
                // sandbox. Sends the bytes without the pipe.
                Err(_) => this.report(false),
            }
        }
        Pin::new(&mut this.socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

fn send_with(
    socket: impl AsFd,
    bytes: &[IoSlice<'_>],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
}
