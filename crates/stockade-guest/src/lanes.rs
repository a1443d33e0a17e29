//! Pipes through which the host sends the rest of a connection.
//!
//! ```text
//! expected ── its pipe comes ──▶ come ── the connection takes it ──▶ taken
//! ```
//! A pipe of a connection that is gone is closed, and so is one too many, which the host then sees.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use stockade_wire::Lane;

use crate::reactor::Descriptor;

/// How much is read from a pipe at once.
const BUFFER_BYTES: usize = 512 << 10;

/// The most pipes that are kept. The host counts one until its server has ended, and a program need
/// not have read it by then.
const MOST: usize = 32;

/// The connections that may get a pipe, by their streams.
#[derive(Clone, Default)]
pub(crate) struct Lanes {
    expected: Rc<RefCell<HashMap<u32, Expected>>>,
    kept: Rc<Cell<usize>>,
}

#[derive(Default)]
struct Expected {
    come: Option<Come>,
    waker: Option<Waker>,
}

/// A pipe that has come, one of those that are kept.
pub(crate) struct Come {
    pub(crate) lane: Lane,
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

impl Lanes {
    /// From now on the pipe of a stream is kept for it.
    pub(crate) fn expect(&self, stream: u32) {
        self.expected.borrow_mut().insert(stream, Expected::default());
    }

    pub(crate) fn forget(&self, stream: u32) {
        self.expected.borrow_mut().remove(&stream);
    }

    /// A descriptor has come; it begins with what it is.
    pub(crate) fn come(&self, pipe: OwnedFd) {
        let mut bytes = [0; Lane::BYTES];
        if rustix::io::read(&pipe, &mut bytes) != Ok(bytes.len()) {
            return;
        }
        if self.kept.get() >= MOST {
            return;
        }
        let lane = Lane::from_bytes(bytes);
        if let Some(expected) = self.expected.borrow_mut().get_mut(&lane.stream) {
            self.kept.set(self.kept.get() + 1);
            expected.come = Some(Come { lane, pipe, kept: Kept(Rc::clone(&self.kept)) });
            if let Some(waker) = expected.waker.take() {
                waker.wake();
            }
        }
    }

    /// The pipe of a stream if it has come; who asks is woken when it does.
    pub(crate) fn take(&self, context: &Context<'_>, stream: u32) -> Option<Come> {
        let mut all = self.expected.borrow_mut();
        let expected = all.get_mut(&stream)?;
        expected.waker = Some(context.waker().clone());
        expected.come.take()
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
