//! What has come from the guest and is still unread.
//!
//! The connection bounds the unread bytes of a stream but not the frames they came in, and a frame
//! of one byte costs a hundred in memory. Past a number of unread frames nothing more is taken from
//! the socket until some are read.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::io::{AsyncRead, AsyncWrite};
use yamux::Stream;

/// The most unread frames of one link; at about a hundred bytes each they fill 3 MiB.
const MAX_FRAMES: usize = 32 << 10;

/// The unread frames of every stream that is open.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: HashMap<u32, Entry>,
    frames: usize,
    waiting: Option<Waker>,
    breach: Option<&'static str>,
}

#[derive(Debug)]
enum Entry {
    /// The bytes left of each unread frame.
    Reading(VecDeque<u32>),
    /// The guest has nothing to say there.
    Writing,
}

impl Ledger {
    /// Counts what the guest sends on a stream for as long as that is held.
    pub(super) fn reading(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        Ledger::entered(ledger, stream, Entry::Reading(VecDeque::new()))
    }

    /// Refuses what the guest sends on a stream for as long as that is held.
    pub(super) fn writing(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        Ledger::entered(ledger, stream, Entry::Writing)
    }

    /// Notes a frame that begins. One on a stream that is not held is dropped by the connection.
    pub(super) fn received(&self, stream: u32, bytes: u32) -> io::Result<()> {
        let mut state = self.lock();
        match state.streams.get_mut(&stream) {
            Some(Entry::Reading(frames)) if bytes > 0 => {
                frames.push_back(bytes);
                state.frames += 1;
                Ok(())
            }
            Some(Entry::Writing) if bytes > 0 => {
                state.breach = Some("it wrote to a stream that it may only read");
                Err(io::ErrorKind::InvalidData.into())
            }
            _ => Ok(()),
        }
    }

    /// Notes a breach that the connection has found.
    pub(super) fn refused(&self, what: &'static str) -> io::Error {
        self.lock().breach.get_or_insert(what);
        io::ErrorKind::InvalidData.into()
    }

    /// What the guest did wrong, if anything.
    pub(super) fn breach(&self) -> Option<&'static str> {
        self.lock().breach
    }

    /// Ready when more may be taken from the socket.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.frames < MAX_FRAMES {
            return Poll::Ready(());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    fn entered(ledger: &Arc<Ledger>, stream: Stream, entry: Entry) -> Counted {
        let id = stream.id().val();
        ledger.lock().streams.insert(id, entry);
        Counted { stream, id, ledger: Arc::clone(ledger) }
    }

    fn read(&self, stream: u32, bytes: usize) {
        let mut state = self.lock();
        let Some(Entry::Reading(frames)) = state.streams.get_mut(&stream) else { return };
        let mut left = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut done = 0;
        while let Some(first) = frames.front_mut() {
            if *first > left {
                *first -= left;
                break;
            }
            left -= *first;
            frames.pop_front();
            done += 1;
        }
        state.freed(done);
    }

    fn dropped(&self, stream: u32) {
        let mut state = self.lock();
        if let Some(Entry::Reading(frames)) = state.streams.remove(&stream) {
            state.freed(frames.len());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn freed(&mut self, frames: usize) {
        self.frames -= frames;
        if self.frames < MAX_FRAMES
            && let Some(waiting) = self.waiting.take()
        {
            waiting.wake();
        }
    }
}

/// A stream whose unread frames are counted.
#[derive(Debug)]
pub(super) struct Counted {
    stream: Stream,
    id: u32,
    ledger: Arc<Ledger>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(bytes)) = &read {
            self.ledger.read(self.id, *bytes);
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
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.ledger.dropped(self.id);
    }
}
