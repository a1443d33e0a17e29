//! A stream whose unread frames are counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt;
use futures_util::io::{AsyncRead, AsyncWrite};
use yamux::{Packet, Stream};

use super::Ledger;

/// A stream whose unread frames are counted.
#[derive(Debug)]
pub(in super::super) struct Counted {
    stream: Stream,
    id: u32,
    ledger: Arc<Ledger>,
    /// Whether the host has half-closed it.
    closed: bool,
}

impl Counted {
    pub(super) fn new(stream: Stream, ledger: &Arc<Ledger>) -> Counted {
        let id = stream.id().val();
        Counted { stream, id, ledger: Arc::clone(ledger), closed: false }
    }

    pub(in super::super) fn id(&self) -> u32 {
        self.id
    }

    /// The next frame, or none at the end. Its bytes count as unread until [`Counted::count`].
    pub(in super::super) fn poll_packet(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Packet>>> {
        match ready!(self.stream.poll_next_unpin(context)).transpose()? {
            None => Poll::Ready(self.end().map(|()| None)),
            packet => Poll::Ready(Ok(packet)),
        }
    }

    /// Records that this many bytes were read.
    pub(in super::super) fn count(&self, bytes: usize) {
        self.ledger.read(self.id, bytes);
    }

    /// Distinguishes a reset of a connection from its end, which the multiplexer does not.
    fn end(&self) -> io::Result<()> {
        if self.ledger.is_connection(self.id) && !self.ledger.has_ended(self.id) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &read {
            Poll::Ready(Ok(0)) if !buffer.is_empty() => self.end()?,
            Poll::Ready(Ok(bytes)) => self.count(*bytes),
            _ => {}
        }
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.ledger.poll_speak(context, self.id));
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if !matches!(written, Poll::Ready(Ok(1..))) {
            self.ledger.said_nothing(self.id);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_close(context);
        if let Poll::Ready(Ok(())) = closed {
            self.closed = true;
        }
        closed
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ledger.dropped(self.id, self.closed);
    }
}
