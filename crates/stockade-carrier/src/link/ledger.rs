//! Counts the unread frames from the guest.
//!
//! The connection bounds the unread bytes of a stream but not the number of frames, and a frame of
//! one byte costs a hundred bytes of memory. At a limit of unread frames the link stops reading
//! from the socket until some are read.
//!
//! Streams that the guest opened do not use this backpressure, because it would block all other
//! streams too: a stream over its limit is ended.

mod counted;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use stockade_wire::{Ends, Header, Heard};
use tokio::task::AbortHandle;
use yamux::Stream;

pub(super) use counted::Counted;

/// The maximum number of unread frames of one link; at about a hundred bytes each they need 3 MiB.
const MAX_FRAMES: usize = 32 << 10;

/// The maximum number of unread frames of one stream that the guest opened, and of all of them.
const MAX_CONNECTION_FRAMES: usize = 16 << 10;
const MAX_ALL_CONNECTION_FRAMES: usize = 64 << 10;
/// The maximum number of unread bytes of all streams that the guest opened.
const MAX_ALL_CONNECTION_BYTES: usize = 64 << 20;

/// Whether the guest may open streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestStreams {
    Allowed,
    Refused,
}

/// The unread frames of every open stream.
#[derive(Debug)]
pub(super) struct Ledger {
    guest_streams: GuestStreams,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: HashMap<u32, StreamState>,
    frames: usize,
    connection_frames: usize,
    connection_bytes: usize,
    ends: Ends,
    /// Whether a frame came since the last call of [`Ledger::was_alive`].
    is_alive: bool,
    /// The number of open streams of the host.
    own: usize,
    waiting: Option<Waker>,
    is_closed: bool,
    breach: Option<&'static str>,
}

#[derive(Debug)]
enum StreamState {
    /// A stream to read from, with its unread frames.
    Reading(Unread),
    /// A stream on which the guest may send nothing.
    Writing,
    /// A stream that the guest opened.
    Connection(Connection),
}

#[derive(Debug, Default)]
struct Connection {
    unread: Unread,
    /// The task that serves it.
    served: Option<AbortHandle>,
    /// Whether a frame to the guest waits to be sent, and the waker of the next writer.
    is_unsaid: bool,
    speaker: Option<Waker>,
}

/// The unread frames of a stream.
#[derive(Debug, Default)]
struct Unread {
    frames: VecDeque<u32>,
    bytes: usize,
}

impl Unread {
    fn add(&mut self, bytes: u32) {
        self.frames.push_back(bytes);
        self.bytes += bytes as usize;
    }

    /// Removes bytes that were read. Returns how many frames and how many counted bytes that
    /// finished.
    fn take(&mut self, bytes: usize) -> (usize, usize) {
        let mut left = u32::try_from(bytes).unwrap_or(u32::MAX);
        let before = self.bytes;
        let mut done = 0;
        while let Some(first) = self.frames.front_mut() {
            if *first > left {
                *first -= left;
                self.bytes -= left as usize;
                break;
            }
            left -= *first;
            self.bytes -= *first as usize;
            self.frames.pop_front();
            done += 1;
        }
        (done, before - self.bytes)
    }
}

impl Ledger {
    pub(super) fn new(guest_streams: GuestStreams) -> Ledger {
        Ledger { guest_streams, state: Mutex::default() }
    }

    /// Counts what the guest sends on a stream until the stream is dropped.
    pub(super) fn reading(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        ledger.lock().add_own(&stream, StreamState::Reading(Unread::default()));
        Counted::new(stream, ledger)
    }

    /// Refuses what the guest sends on a stream until the stream is dropped.
    pub(super) fn writing(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        ledger.lock().add_own(&stream, StreamState::Writing);
        Counted::new(stream, ledger)
    }

    /// A stream that the host opens for a connection: limited like one that the guest opens, because
    /// its reader may be slow.
    pub(super) fn port(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        {
            let mut state = ledger.lock();
            let id = stream.id().val();
            state.streams.insert(id, StreamState::Connection(Connection::default()));
            state.ends.hold(id);
        }
        Counted::new(stream, ledger)
    }

    /// Wraps a stream that the guest opened; its first frame is counted already.
    pub(super) fn connection(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        Counted::new(stream, ledger)
    }

    /// Sets the task to abort when a stream that the guest opened exceeds its limit.
    pub(super) fn end_if_too_much(&self, stream: u32, served: AbortHandle) {
        if let Some(StreamState::Connection(connection)) = self.lock().streams.get_mut(&stream) {
            connection.served = Some(served);
        }
    }

    /// Records the header of a frame from the guest. The connection drops frames of streams that do
    /// not exist.
    pub(super) fn heard(&self, header: Header) -> io::Result<()> {
        let mut state = self.lock();
        state.is_alive = true;
        let opens = header.opens_stream() && header.stream.is_multiple_of(2);
        if opens && self.guest_streams == GuestStreams::Allowed {
            let new = || StreamState::Connection(Connection::default());
            state.streams.entry(header.stream).or_insert_with(new);
            state.ends.hold(header.stream);
        }
        state.ends.hear(header);
        match header.kind {
            Header::DATA if header.length > 0 => state.received(header.stream, header.length),
            _ => Ok(()),
        }
    }

    /// Records the header of a frame to the guest.
    pub(super) fn said(&self, header: Header) -> io::Result<()> {
        let mut state = self.lock();
        state.ends.say(header);
        match header.kind {
            Header::DATA if header.length > 0 => {
                state.spoke(header.stream);
                Ok(())
            }
            // yamux sends this frame when the guest broke the protocol, and then continues to read.
            Header::GO_AWAY => {
                state.breach.get_or_insert("it broke the rules of the connection");
                Err(io::ErrorKind::InvalidData.into())
            }
            _ => Ok(()),
        }
    }

    /// Records that the connection is closed, and wakes the writers that wait.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for entry in state.streams.values_mut() {
            if let StreamState::Connection(Connection { speaker, .. }) = entry
                && let Some(speaker) = speaker.take()
            {
                speaker.wake();
            }
        }
    }

    /// Appends pending reset frames; call it only between two frames.
    pub(super) fn take_resets(&self, outgoing: &mut Vec<u8>) {
        self.lock().ends.take_resets(|frame| outgoing.extend(frame));
    }

    /// The number of open streams of the host.
    pub(super) fn own_streams(&self) -> usize {
        self.lock().own
    }

    /// Whether the guest has sent a frame since the last call. True also while the link itself does
    /// not read because too many frames are unread.
    pub(super) fn was_alive(&self) -> bool {
        let mut state = self.lock();
        std::mem::take(&mut state.is_alive) || state.frames >= MAX_FRAMES
    }

    /// How the guest broke the protocol, if it did.
    pub(super) fn breach(&self) -> Option<&'static str> {
        self.lock().breach
    }

    /// Ready when the link may read from the socket.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.frames < MAX_FRAMES {
            return Poll::Ready(());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when a stream may queue a frame for the guest. Each connection may queue one at a
    /// time: more would fill memory, and leave the CPU cache before they are sent.
    fn poll_speak(&self, context: &mut Context<'_>, stream: u32) -> Poll<()> {
        let mut state = self.lock();
        let is_closed = state.is_closed;
        if let Some(StreamState::Connection(connection)) = state.streams.get_mut(&stream) {
            if connection.is_unsaid && !is_closed {
                connection.speaker = Some(context.waker().clone());
                return Poll::Pending;
            }
            connection.is_unsaid = true;
        }
        Poll::Ready(())
    }

    /// Records that no frame was queued after all.
    fn said_nothing(&self, stream: u32) {
        self.lock().spoke(stream);
    }

    /// Whether the guest half-closed a stream that it opened, without a reset.
    fn has_ended(&self, stream: u32) -> bool {
        self.lock().ends.heard(stream) == Some(Heard::End)
    }

    fn is_connection(&self, stream: u32) -> bool {
        matches!(self.lock().streams.get(&stream), Some(StreamState::Connection(..)))
    }

    fn read(&self, stream: u32, bytes: usize) {
        let mut state = self.lock();
        match state.streams.get_mut(&stream) {
            Some(StreamState::Reading(unread)) => {
                let (frames, _) = unread.take(bytes);
                state.freed(frames);
            }
            Some(StreamState::Connection(connection)) => {
                let (frames, bytes) = connection.unread.take(bytes);
                state.connection_frames -= frames;
                state.connection_bytes -= bytes;
            }
            Some(StreamState::Writing) | None => {}
        }
    }

    /// Removes a dropped stream; `closed` is whether the host had half-closed it.
    fn dropped(&self, stream: u32, closed: bool) {
        let mut state = self.lock();
        match state.streams.remove(&stream) {
            Some(StreamState::Reading(unread)) => {
                state.own -= 1;
                state.freed(unread.frames.len());
            }
            Some(StreamState::Connection(Connection { unread, .. })) => {
                state.connection_frames -= unread.frames.len();
                state.connection_bytes -= unread.bytes;
                state.ends.release(stream, closed);
            }
            Some(StreamState::Writing) => state.own -= 1,
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add_own(&mut self, stream: &Stream, entry: StreamState) {
        self.streams.insert(stream.id().val(), entry);
        self.own += 1;
    }

    fn received(&mut self, stream: u32, bytes: u32) -> io::Result<()> {
        match self.streams.get_mut(&stream) {
            Some(StreamState::Reading(unread)) => {
                unread.add(bytes);
                self.frames += 1;
                Ok(())
            }
            Some(StreamState::Connection(Connection { unread, served, .. })) => {
                unread.add(bytes);
                self.connection_frames += 1;
                self.connection_bytes += bytes as usize;
                let too_much = unread.frames.len() > MAX_CONNECTION_FRAMES
                    || self.connection_frames > MAX_ALL_CONNECTION_FRAMES
                    || self.connection_bytes > MAX_ALL_CONNECTION_BYTES;
                if let (true, Some(served)) = (too_much, served) {
                    served.abort();
                }
                Ok(())
            }
            Some(StreamState::Writing) => {
                self.breach = Some("it wrote to a stream that it may only read");
                Err(io::ErrorKind::InvalidData.into())
            }
            None => Ok(()),
        }
    }

    /// Records that the queued frame is being sent.
    fn spoke(&mut self, stream: u32) {
        if let Some(StreamState::Connection(connection)) = self.streams.get_mut(&stream) {
            connection.is_unsaid = false;
            if let Some(speaker) = connection.speaker.take() {
                speaker.wake();
            }
        }
    }

    fn freed(&mut self, frames: usize) {
        self.frames -= frames;
        if self.frames < MAX_FRAMES
            && let Some(waiting) = self.waiting.take()
        {
            waiting.wake();
        }
    }
}
