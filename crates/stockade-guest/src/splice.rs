//! Splice pipes, through which the host sends the rest of a download.
//!
//! ```text
//! expected ── its pipe arrives ──▶ arrived ── the connection takes it ──▶ taken
//! ```
//! The guest closes pipes of connections that are gone and pipes over the limit; the host sees
//! EPIPE.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use stockade_wire::SpliceHeader;

use crate::reactor::Descriptor;

/// The size of one read from a pipe.
const BUFFER_BYTES: usize = 512 << 10;

/// The maximum number of pipes. It exceeds the host's limit, which counts a pipe only until its
/// server has ended, while the program may still read from it.
const MOST: usize = 32;

/// The connections that may receive a pipe, by their streams.
#[derive(Clone, Default)]
pub(crate) struct SplicePipes {
    expected: Rc<RefCell<HashMap<u32, Expected>>>,
    kept: Rc<Cell<usize>>,
}

#[derive(Default)]
struct Expected {
    arrived: Option<Arrived>,
    waker: Option<Waker>,
}

/// A pipe that has arrived and counts towards the limit.
pub(crate) struct Arrived {
    pub(crate) header: SpliceHeader,
    pub(crate) pipe: OwnedFd,
    pub(crate) kept: Kept,
}

/// Counts one pipe towards the limit until dropped.
pub(crate) struct Kept(Rc<Cell<usize>>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl SplicePipes {
    /// Accepts a pipe for a stream from now on.
    pub(crate) fn expect(&self, stream: u32) {
        self.expected.borrow_mut().insert(stream, Expected::default());
    }

    pub(crate) fn forget(&self, stream: u32) {
        self.expected.borrow_mut().remove(&stream);
    }

    /// Receives a descriptor, whose first bytes name its stream.
    pub(crate) fn arrived(&self, pipe: OwnedFd) {
        let mut bytes = [0; SpliceHeader::BYTES];
        if rustix::io::read(&pipe, &mut bytes) != Ok(bytes.len()) {
            return;
        }
        if self.kept.get() >= MOST {
            return;
        }
        let header = SpliceHeader::from_bytes(bytes);
        if let Some(expected) = self.expected.borrow_mut().get_mut(&header.stream) {
            self.kept.set(self.kept.get() + 1);
            expected.arrived = Some(Arrived { header, pipe, kept: Kept(Rc::clone(&self.kept)) });
            if let Some(waker) = expected.waker.take() {
                waker.wake();
            }
        }
    }

    /// Takes the pipe of a stream if it has arrived; otherwise wakes the caller when it does.
    pub(crate) fn take(&self, context: &Context<'_>, stream: u32) -> Option<Arrived> {
        let mut all = self.expected.borrow_mut();
        let expected = all.get_mut(&stream)?;
        expected.waker = Some(context.waker().clone());
        expected.arrived.take()
    }
}

/// Copies the bytes of a pipe to a program.
pub(crate) struct Draining {
    pipe: Descriptor,
    buffer: Box<[u8]>,
    filled: usize,
    written: usize,
    _kept: Kept,
}

/// Which side stopped the copying.
pub(crate) enum Stopped {
    Reading,
    Writing,
}

impl Draining {
    pub(crate) fn new(pipe: Descriptor, kept: Kept) -> Draining {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Draining { pipe, buffer, filled: 0, written: 0, _kept: kept }
    }

    /// Ready when all bytes have been written.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        client: &Descriptor,
    ) -> Poll<Result<(), Stopped>> {
        loop {
            while self.written < self.filled {
                let rest = &self.buffer[self.written..self.filled];
                let written = ready!(client.poll_write(context, rest));
                self.written += written.map_err(|_| Stopped::Writing)?;
            }
            let read = ready!(self.pipe.poll_read(context, &mut self.buffer));
            (self.written, self.filled) = (0, read.map_err(|_| Stopped::Reading)?);
            if self.filled == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
