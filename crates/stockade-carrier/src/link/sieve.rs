//! The socket under the connection: buffered, and watched for what the connection lets pass.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as TokioRead, AsyncWrite as TokioWrite, ReadBuf};
use tokio::net::UnixStream;

use super::ledger::Ledger;

const BUFFER_BYTES: usize = 64 << 10;

/// The socket to the guest.
#[derive(Debug)]
pub(super) struct Sieve {
    socket: UnixStream,
    ledger: Arc<Ledger>,
    incoming: Box<[u8]>,
    /// How much of `incoming` was read, and how much of that has been handed out.
    filled: usize,
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of `outgoing` has been written.
    written: usize,
    heard: Headers,
    said: Headers,
}

impl Sieve {
    pub(super) fn new(socket: UnixStream, ledger: Arc<Ledger>) -> Sieve {
        Sieve {
            socket,
            ledger,
            incoming: vec![0; BUFFER_BYTES].into_boxed_slice(),
            filled: 0,
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            heard: Headers::default(),
            said: Headers::default(),
        }
    }

    /// Reads what there is, if all that was read before has been handed out.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.taken < self.filled {
            return Poll::Ready(Ok(()));
        }
        let mut buffer = ReadBuf::new(&mut self.incoming);
        let read = Pin::new(&mut self.socket).poll_read(context, &mut buffer);
        (self.taken, self.filled) = (0, buffer.filled().len());
        read
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
        ready!(this.poll_fill(context))?;
        let ready = &this.incoming[this.taken..this.filled];
        let read = ready.len().min(buffer.len());
        buffer[..read].copy_from_slice(&ready[..read]);
        this.taken += read;
        this.heard.follow(&buffer[..read], |header| match header.kind {
            Header::DATA => this.ledger.received(header.stream, header.length),
            _ => Ok(()),
        })?;
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
        this.said.follow(bytes, |header| match header.kind {
            // The connection says so when the guest broke its rules, and then goes on listening.
            Header::GO_AWAY => Err(this.ledger.refused("it broke the rules of the connection")),
            _ => Ok(()),
        })?;
        this.outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.written < this.outgoing.len() {
            let rest = &this.outgoing[this.written..];
            this.written += ready!(Pin::new(&mut this.socket).poll_write(context, rest))?;
        }
        this.outgoing.clear();
        this.written = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

/// The part of a frame's header that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    kind: u8,
    stream: u32,
    length: u32,
}

impl Header {
    const DATA: u8 = 0;
    const GO_AWAY: u8 = 3;
    const BYTES: usize = 12;
}

/// Follows a stream of frames from header to header.
#[derive(Debug, Default)]
struct Headers {
    header: Vec<u8>,
    /// How much of the current frame's body is still to come.
    body: usize,
}

impl Headers {
    fn follow(
        &mut self,
        mut bytes: &[u8],
        mut seen: impl FnMut(Header) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let skipped = self.body.min(bytes.len());
            self.body -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (Header::BYTES - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            // Version, kind, two bytes of flags, stream and length, the numbers big endian.
            if let [_, kind, _, _, a, b, c, d, e, f, g, h] = self.header[..] {
                let stream = u32::from_be_bytes([a, b, c, d]);
                let length = u32::from_be_bytes([e, f, g, h]);
                self.header.clear();
                self.body = if kind == Header::DATA { length as usize } else { 0 };
                seen(Header { kind, stream, length })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_however_the_bytes_are_cut() {
        let data = [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 3, 0];
        let window = [0, 1, 0, 0, 0, 0, 0, 7, 0, 4, 0, 0];
        let away = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let bytes = [data.as_slice(), &window, &away].concat();
        let expected = [
            Header { kind: 0, stream: 5, length: 3 },
            Header { kind: 1, stream: 7, length: 262144 },
            Header { kind: 3, stream: 0, length: 1 },
        ];
        for piece in 1..=bytes.len() {
            let mut headers = Headers::default();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                let note = |header| {
                    found.push(header);
                    Ok(())
                };
                headers.follow(part, note).unwrap();
            }
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }
}
