//! Pipes through which the host sends the rest of a connection.
//!
//! ```text
//! expected ── its pipe comes ──▶ come ── the connection takes it ──▶ taken
//! ```
//! A pipe of a connection that is gone is closed, which the host then sees.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use stockade_wire::Lane;

use crate::reactor::Descriptor;

/// How much is read from a pipe at once.
const BUFFER_BYTES: usize = 512 << 10;

/// The connections that may get a pipe, by their streams.
#[derive(Clone, Default)]
pub(crate) struct Lanes(Rc<RefCell<HashMap<u32, Expected>>>);

#[derive(Default)]
struct Expected {
    come: Option<(Lane, OwnedFd)>,
    waker: Option<Waker>,
}

impl Lanes {
    /// From now on the pipe of a stream is kept for it.
    pub(crate) fn expect(&self, stream: u32) {
        self.0.borrow_mut().insert(stream, Expected::default());
    }

    pub(crate) fn forget(&self, stream: u32) {
        self.0.borrow_mut().remove(&stream);
    }

    /// A descriptor has come; it begins with what it is.
    pub(crate) fn come(&self, pipe: OwnedFd) {
        let mut bytes = [0; Lane::BYTES];
        if rustix::io::read(&pipe, &mut bytes) != Ok(bytes.len()) {
            return;
        }
        let lane = Lane::from_bytes(bytes);
        if let Some(expected) = self.0.borrow_mut().get_mut(&lane.stream) {
            expected.come = Some((lane, pipe));
            if let Some(waker) = expected.waker.take() {
                waker.wake();
            }
        }
    }

    /// The pipe of a stream if it has come; who asks is woken when it does.
    pub(crate) fn take(&self, context: &Context<'_>, stream: u32) -> Option<(Lane, OwnedFd)> {
        let mut all = self.0.borrow_mut();
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
}

/// Why a pipe is not drained to its end.
pub(crate) enum Stopped {
    Reading,
    Writing,
}

impl Draining {
    pub(crate) fn new(pipe: Descriptor) -> Draining {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Draining { pipe, buffer, filled: 0, written: 0 }
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
