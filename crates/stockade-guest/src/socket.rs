//! The stream to the host, buffered so that one system call carries many small frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::io::{AsyncRead, AsyncWrite};

use crate::reactor::Descriptor;

const BUFFER_BYTES: usize = 64 << 10;

/// The stream to the host.
pub(crate) struct Socket {
    descriptor: Descriptor,
    incoming: Vec<u8>,
    /// How much of `incoming` has been handed out.
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of `outgoing` has been written.
    written: usize,
}

impl Socket {
    pub(crate) fn new(descriptor: Descriptor) -> Socket {
        Socket { descriptor, incoming: Vec::new(), taken: 0, outgoing: Vec::new(), written: 0 }
    }

    /// Reads what there is, if all that was read before has been handed out.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.taken < self.incoming.len() {
            return Poll::Ready(Ok(()));
        }
        self.taken = 0;
        self.incoming.resize(BUFFER_BYTES, 0);
        let read = self.descriptor.poll_read(context, &mut self.incoming);
        self.incoming.truncate(match &read {
            Poll::Ready(Ok(read)) => *read,
            _ => 0,
        });
        read.map_ok(|_| ())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.taken == self.incoming.len() && buffer.len() >= BUFFER_BYTES {
            return self.descriptor.poll_read(context, buffer);
        }
        match self.poll_fill(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let ready = &self.incoming[self.taken..];
        let read = ready.len().min(buffer.len());
        buffer[..read].copy_from_slice(&ready[..read]);
        self.taken += read;
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.outgoing.len() >= BUFFER_BYTES {
            match self.as_mut().poll_flush(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.outgoing.len() {
            match self.descriptor.poll_write(context, &self.outgoing[self.written..]) {
                Poll::Ready(Ok(written)) => self.written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.outgoing.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
