//! The byte stream below yamux: buffered, and inspected for what yamux does not check.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use stockade_wire::Headers;
use tokio::io::ReadBuf;

use super::ledger::Ledger;

/// The size of the read buffer: enough for many small frames. Larger reads bypass it.
const AHEAD_BYTES: usize = 8 << 10;
/// The size of the write buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// From this size on, a write bypasses the buffer and goes out together with the buffered bytes.
const LARGE_BYTES: usize = 16 << 10;

/// Any byte stream to a guest.
pub(super) trait ByteStream:
    tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin
{
}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> ByteStream for T {}

/// The byte stream to the guest.
pub(super) struct Sieve {
    stream: Box<dyn ByteStream>,
    ledger: Arc<Ledger>,
    incoming: Box<[u8]>,
    /// How much of `incoming` is filled, and how much of that yamux has taken.
    filled: usize,
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of `outgoing` has been written.
    written: usize,
    heard: Headers,
    said: Headers,
}

impl Sieve {
    pub(super) fn new(stream: Box<dyn ByteStream>, ledger: Arc<Ledger>) -> Sieve {
        Sieve {
            stream,
            ledger,
            incoming: vec![0; AHEAD_BYTES].into_boxed_slice(),
            filled: 0,
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            heard: Headers::default(),
            said: Headers::default(),
        }
    }

    /// Fills the read buffer if it is empty.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.taken < self.filled {
            return Poll::Ready(Ok(()));
        }
        let mut buffer = ReadBuf::new(&mut self.incoming);
        let read = Pin::new(&mut *self.stream).poll_read(context, &mut buffer);
        (self.taken, self.filled) = (0, buffer.filled().len());
        read
    }

    /// Writes the rest of `outgoing` and, in the same call, as much of `bytes` as possible.
    fn poll_write_through(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let before = self.outgoing.len() - self.written;
            let both = [IoSlice::new(&self.outgoing[self.written..]), IoSlice::new(bytes)];
            match ready!(Pin::new(&mut *self.stream).poll_write_vectored(context, &both))? {
                0 if before + bytes.len() > 0 => {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                written if written <= before && before > 0 => self.written += written,
                written => {
                    self.outgoing.clear();
                    self.written = 0;
                    let taken = &bytes[..written - before];
                    self.said.follow(taken, |header| self.ledger.said(header))?;
                    return Poll::Ready(Ok(taken.len()));
                }
            }
        }
    }

    /// Appends pending resets, but never inside a frame.
    fn add_resets(&mut self) {
        if self.said.is_between_frames() {
            self.ledger.take_resets(&mut self.outgoing);
        }
    }
}

impl AsyncRead for Sieve {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.ledger.poll_room(context));
        let read = if this.taken == this.filled && buffer.len() >= AHEAD_BYTES {
            let mut directly = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *this.stream).poll_read(context, &mut directly))?;
            directly.filled().len()
        } else {
            ready!(this.poll_fill(context))?;
            let ready = &this.incoming[this.taken..this.filled];
            let read = ready.len().min(buffer.len());
            buffer[..read].copy_from_slice(&ready[..read]);
            this.taken += read;
            read
        };
        this.heard.follow(&buffer[..read], |header| this.ledger.heard(header))?;
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Sieve {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.outgoing.len() >= BUFFER_BYTES {
            ready!(self.as_mut().poll_flush(context))?;
        }
        let this = &mut *self;
        if bytes.len() >= LARGE_BYTES {
            return this.poll_write_through(context, bytes);
        }
        this.add_resets();
        this.said.follow(bytes, |header| this.ledger.said(header))?;
        this.outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.add_resets();
        while this.written < this.outgoing.len() {
            let rest = &this.outgoing[this.written..];
            match ready!(Pin::new(&mut *this.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => this.written += written,
            }
        }
        this.outgoing.clear();
        this.written = 0;
        Pin::new(&mut *this.stream).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
