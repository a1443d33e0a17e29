//! Splice pipes, through which the host sends the rest of a connection.
//!
//! ```text
//! expected ── its pipe arrives ──▶ arrived ── the connection takes it ──▶ taken
//! ```
//! A pipe of a connection that is gone is closed, and so is one too many, which the host then sees.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use stockade_wire::SpliceHeader;

use crate::reactor::Descriptor;

/// How much is read from a pipe at once.
const BUFFER_BYTES: usize = 512 << 10;

/// The most pipes that are kept. The host counts one until its server has ended, and a program need
/// not have read it by then.
const MOST: usize = 32;

/// The connections that may get a pipe, by their streams.
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

/// A pipe that has arrived, one of those that are kept.
pub(crate) struct Arrived {
    pub(crate) header: SpliceHeader,
    pub(crate) pipe: OwnedFd,
    pub(crate) kept: Kept,
}

/// One of the pipes that are kept, until this is dropped.
pub(crate) struct Kept(Rc<Cell<usize>>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl SplicePipes {
    /// From now on the pipe of a stream is kept for it.
    pub(crate) fn expect(&self, stream: u32) {
        self.expected.borrow_mut().insert(stream, Expected::default());
    }

    pub(crate) fn forget(&self, stream: u32) {
        self.expected.borrow_mut().remove(&stream);
    }

    /// A descriptor has arrived; its first bytes name its stream.
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

    /// The pipe of a stream if it has arrived; the caller is woken when it does.
    pub(crate) fn take(&self, context: &Context<'_>, stream: u32) -> Option<Arrived> {
        let mut all = self.expected.borrow_mut();
        let expected = all.get_mut(&stream)?;
        expected.waker = Some(context.waker().clone());
        expected.arrived.take()
    }
}

/// Moves the bytes of a pipe to a program.
pub(crate) struct Draining {
    pipe: Descriptor,
    buffer: Box<[u8]>,
    filled: usize,
    written: usize,
    _kept: Kept,
}

/// Why a pipe is not drained to its end.
pub(crate) enum Stopped {
    Reading,
    Writing,
}

impl Draining {
    pub(crate) fn new(pipe: Descriptor, kept: Kept) -> Draining {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Draining { pipe, buffer, filled: 0, written: 0, _kept: kept }
    }

    /// Ready when everything has been written.
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
