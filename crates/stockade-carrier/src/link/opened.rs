//! A connection that the guest opened, as the gateway sees it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::io::AsyncWrite as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use yamux::Packet;

use super::ledger::Counted;

/// A stream that the guest opened. Reads do not zero the caller's buffer first, as general adapters
/// do: that would cost as much as copying the bytes.
#[derive(Debug)]
pub(super) struct Opened {
    stream: Counted,
    /// The current frame, and how much of it was read.
    packet: Option<Packet>,
    taken: usize,
    /// How many bytes were written to it.
    written: Arc<AtomicU64>,
}

impl Opened {
    pub(super) fn new(stream: Counted, written: Arc<AtomicU64>) -> Opened {
        Opened { stream, packet: None, taken: 0, written }
    }
}

impl AsyncRead for Opened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while buffer.remaining() > 0 {
            let rest =
                this.packet.as_ref().map_or(&[][..], |packet| &packet.as_ref()[this.taken..]);
            if !rest.is_empty() {
                let read = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest[..read]);
                this.taken += read;
                this.stream.count(read);
                break;
            }
            (this.packet, this.taken) = (None, 0);
            match ready!(this.stream.poll_packet(context))? {
                // A frame may be empty.
                Some(packet) => this.packet = Some(packet),
                None => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Opened {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}
