//! The stream to the host, one socket or two pipes, buffered so that one system call carries many
//! small frames.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use stockade_wire::{Header, Headers};

use crate::opener::{Opener, SharedEnds};
use crate::reactor::Descriptor;
use crate::splice::SplicePipes;

/// The size of the read buffer: enough for many small frames. Larger reads bypass it.
const AHEAD_BYTES: usize = 8 << 10;
/// The size of the write buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// From this size on, a write bypasses the buffer and goes out together with the buffered bytes.
const LARGE_BYTES: usize = 16 << 10;

/// The stream to the host.
pub(crate) struct Socket {
    ends: Ends,
    /// Set whenever bytes arrive.
    heard: Rc<Cell<bool>>,
    incoming: Box<[u8]>,
    /// How much of `incoming` is filled, and how much of that the multiplexer has taken.
    filled: usize,
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of `outgoing` has been written.
    written: usize,
    passing: Option<Passing>,
    /// Whether a large frame of a connection is complete. Its relay runs next, while the bytes are
    /// in the CPU cache.
    is_whole: bool,
}

/// The descriptors of the stream.
pub(crate) enum Ends {
    /// One socket for both directions, which may carry splice pipes.
    Socket(Descriptor),
    /// One descriptor for each direction, such as a container's standard input and output.
    Pair {
        /// Bytes from the host.
        reader: Descriptor,
        /// Bytes to the host.
        writer: Descriptor,
    },
}

impl Ends {
    fn writer(&self) -> &Descriptor {
        match self {
            Ends::Socket(socket) => socket,
            Ends::Pair { writer, .. } => writer,
        }
    }

    /// Reads, and keeps received splice pipes if there are connections that use them.
    fn receive(
        &self,
        passing: &Option<Passing>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match (self, passing) {
            (Ends::Socket(socket), Some(Passing { pipes, .. })) => {
                socket.poll_receive(context, buffer, |pipe| pipes.arrived(pipe))
            }
            (Ends::Socket(reader) | Ends::Pair { reader, .. }, _) => {
                reader.poll_read(context, buffer)
            }
        }
    }
}

/// Inspects the frames in both directions for the ends of streams, and assigns splice pipes to
/// their connections.
struct Passing {
    ends: SharedEnds,
    pipes: SplicePipes,
    heard: Headers,
    said: Headers,
}

impl Passing {
    fn hear(&mut self, bytes: &[u8]) {
        let mut ends = self.ends.borrow_mut();
        follow(&mut self.heard, bytes, |header| ends.hear(header));
    }

    fn say(&mut self, bytes: &[u8]) {
        let mut ends = self.ends.borrow_mut();
        follow(&mut self.said, bytes, |header| ends.say(header));
    }

    /// Appends pending resets, but never inside a frame.
    fn add(&mut self, outgoing: &mut Vec<u8>) {
        if self.said.is_between_frames() {
            self.ends.borrow_mut().take_resets(|frame| outgoing.extend(frame));
        }
    }
}

fn follow(headers: &mut Headers, bytes: &[u8], mut seen: impl FnMut(Header)) {
    let Ok(()) = headers.follow(bytes, |header| {
        seen(header);
        Ok::<_, std::convert::Infallible>(())
    });
}

impl Socket {
    /// `opener` is set if streams carry connections.
    pub(crate) fn new(ends: Ends, opener: Option<&Opener>, heard: Rc<Cell<bool>>) -> Socket {
        let passing = |opener: &Opener| Passing {
            ends: SharedEnds::clone(&opener.ends),
            pipes: opener.pipes.clone(),
            heard: Headers::default(),
            said: Headers::default(),
        };
        Socket {
            ends,
            heard,
            incoming: vec![0; AHEAD_BYTES].into_boxed_slice(),
            filled: 0,
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            passing: opener.map(passing),
            is_whole: false,
        }
    }

    /// Fills the read buffer if it is empty.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.taken < self.filled {
            return Poll::Ready(Ok(()));
        }
        (self.taken, self.filled) = (0, 0);
        self.filled = ready!(self.ends.receive(&self.passing, context, &mut self.incoming))?;
        self.heard.set(true);
        Poll::Ready(Ok(()))
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
            match ready!(self.ends.writer().poll_write_all_of(context, &both))? {
                written if written <= before && before > 0 => self.written += written,
                written => {
                    self.outgoing.clear();
                    self.written = 0;
                    let taken = written - before;
                    if let Some(passing) = &mut self.passing {
                        passing.say(&bytes[..taken]);
                    }
                    return Poll::Ready(Ok(taken));
                }
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.is_whole) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.taken == self.filled && buffer.len() >= AHEAD_BYTES {
            let read = self.ends.receive(&self.passing, context, buffer);
            self.heard.set(self.heard.get() || read.is_ready());
            if let (Poll::Ready(Ok(read)), Some(passing)) = (&read, &mut self.passing) {
                passing.hear(&buffer[..*read]);
                self.is_whole = *read == buffer.len();
            }
            return read;
        }
        match self.poll_fill(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let ready = &self.incoming[self.taken..self.filled];
        let read = ready.len().min(buffer.len());
        buffer[..read].copy_from_slice(&ready[..read]);
        self.taken += read;
        if let Some(passing) = &mut self.passing {
            passing.hear(&buffer[..read]);
        }
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
        if bytes.len() >= LARGE_BYTES {
            return self.poll_write_through(context, bytes);
        }
        let this = &mut *self;
        if let Some(passing) = &mut this.passing {
            passing.add(&mut this.outgoing);
            passing.say(bytes);
        }
        this.outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(passing) = &mut this.passing {
            passing.add(&mut this.outgoing);
        }
        while self.written < self.outgoing.len() {
            match self.ends.writer().poll_write(context, &self.outgoing[self.written..]) {
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
