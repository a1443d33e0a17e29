//! What has come from the guest and is still unread.
//!
//! The connection bounds the unread bytes of a stream but not the frames they came in, and a frame
//! of one byte costs a hundred in memory. Past a number of unread frames nothing more is taken from
//! the socket until some are read.
//!
//! Streams that the guest opened are not waited for, because everything else would wait with them:
//! one that is too much is ended.

mod counted;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use stockade_wire::{Ends, Header, Heard};
use tokio::task::AbortHandle;
use yamux::Stream;

pub(super) use counted::Counted;

/// The most unread frames of one link; at about a hundred bytes each they fill 3 MiB.
const MAX_FRAMES: usize = 32 << 10;

/// The most unread frames of one stream of the guest's own, and of all of them.
const MAX_CONNECTION_FRAMES: usize = 16 << 10;
const MAX_ALL_CONNECTION_FRAMES: usize = 64 << 10;
/// The most unread bytes of all streams of the guest's own.
const MAX_ALL_CONNECTION_BYTES: usize = 64 << 20;

/// Whether the guest may open streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestStreams {
    Allowed,
    Refused,
}

/// The unread frames of every stream that is open.
#[derive(Debug)]
pub(super) struct Ledger {
    guest_streams: GuestStreams,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: HashMap<u32, Entry>,
    frames: usize,
    connection_frames: usize,
    connection_bytes: usize,
    ends: Ends,
    /// Whether a frame came since [`Ledger::was_alive`] was last asked.
    is_alive: bool,
    /// How many streams of the host's own are held.
    own: usize,
    waiting: Option<Waker>,
    is_closed: bool,
    breach: Option<&'static str>,
}

#[derive(Debug)]
enum Entry {
    /// The bytes left of each unread frame.
    Reading(Unread),
    /// The guest has nothing to say there.
    Writing,
    /// A stream that the guest has opened.
    Connection(Connection),
}

#[derive(Debug, Default)]
struct Connection {
    unread: Unread,
    /// What serves it.
    served: Option<AbortHandle>,
    /// Whether a frame to the guest has not begun, and who has more for it.
    is_unsaid: bool,
    speaker: Option<Waker>,
}

/// The frames of a stream that are not read yet.
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

    /// Takes bytes that were read. Returns how many frames they finished, and how many bytes of
    /// them were known.
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

    /// Counts what the guest sends on a stream for as long as that is held.
    pub(super) fn reading(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        ledger.lock().add_own(&stream, Entry::Reading(Unread::default()));
        Counted::new(stream, ledger)
    }

    /// Refuses what the guest sends on a stream for as long as that is held.
    pub(super) fn writing(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        ledger.lock().add_own(&stream, Entry::Writing);
        Counted::new(stream, ledger)
    }

    /// Takes over a stream that the guest has opened; what came with that is counted already.
    pub(super) fn connection(ledger: &Arc<Ledger>, stream: Stream) -> Counted {
        Counted::new(stream, ledger)
    }

    /// What ends when too much comes on a stream of the guest's own.
    pub(super) fn end_if_too_much(&self, stream: u32, served: AbortHandle) {
        if let Some(Entry::Connection(connection)) = self.lock().streams.get_mut(&stream) {
            connection.served = Some(served);
        }
    }

    /// Notes a frame from the guest that begins. One on a stream that is not held is dropped by the
    /// connection.
    pub(super) fn heard(&self, header: Header) -> io::Result<()> {
        let mut state = self.lock();
        state.is_alive = true;
        let opens = header.opens_stream() && header.stream.is_multiple_of(2);
        if opens && self.guest_streams == GuestStreams::Allowed {
            let new = || Entry::Connection(Connection::default());
            state.streams.entry(header.stream).or_insert_with(new);
            state.ends.hold(header.stream);
        }
        state.ends.hear(header);
        match header.kind {
            Header::DATA if header.length > 0 => state.received(header.stream, header.length),
            _ => Ok(()),
        }
    }

    /// Notes a frame to the guest that begins.
    pub(super) fn said(&self, header: Header) -> io::Result<()> {
        let mut state = self.lock();
        state.ends.say(header);
        match header.kind {
            Header::DATA if header.length > 0 => {
                state.spoke(header.stream);
                Ok(())
            }
            // The connection says so when the guest broke its rules, and then goes on listening.
            Header::GO_AWAY => {
                state.breach.get_or_insert("it broke the rules of the connection");
                Err(io::ErrorKind::InvalidData.into())
            }
            _ => Ok(()),
        }
    }

    /// Nothing more goes to the guest, and whoever waits for that shall learn it.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for entry in state.streams.values_mut() {
            if let Entry::Connection(Connection { speaker, .. }) = entry
                && let Some(speaker) = speaker.take()
            {
                speaker.wake();
            }
        }
    }

    /// Frames that go to the guest between two others.
    pub(super) fn take_resets(&self, outgoing: &mut Vec<u8>) {
        self.lock().ends.take_resets(|frame| outgoing.extend(frame));
    }

    /// How many streams of the host's own are held.
    pub(super) fn own_streams(&self) -> usize {
        self.lock().own
    }

    /// Whether the guest has sent a frame since the last call. Where nothing is taken from the
    /// stream because too much is unread, the silence is not the guest's.
    pub(super) fn was_alive(&self) -> bool {
        let mut state = self.lock();
        std::mem::take(&mut state.is_alive) || state.frames >= MAX_FRAMES
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

    /// Ready when a stream may have one more frame for the guest, which is then waited for. A
    /// connection has one at a time: a row of them fills memory, and has left the caches of the
    /// processor when its turn comes.
    fn poll_speak(&self, context: &mut Context<'_>, stream: u32) -> Poll<()> {
        let mut state = self.lock();
        let is_closed = state.is_closed;
        if let Some(Entry::Connection(connection)) = state.streams.get_mut(&stream) {
            if connection.is_unsaid && !is_closed {
                connection.speaker = Some(context.waker().clone());
                return Poll::Pending;
            }
            connection.is_unsaid = true;
        }
        Poll::Ready(())
    }

    /// There is no frame to wait for.
    fn said_nothing(&self, stream: u32) {
        self.lock().spoke(stream);
    }

    /// Whether the guest has ended a stream of its own in good order.
    fn has_ended(&self, stream: u32) -> bool {
        self.lock().ends.heard(stream) == Some(Heard::End)
    }

    fn is_connection(&self, stream: u32) -> bool {
        matches!(self.lock().streams.get(&stream), Some(Entry::Connection(..)))
    }

    fn read(&self, stream: u32, bytes: usize) {
        let mut state = self.lock();
        match state.streams.get_mut(&stream) {
            Some(Entry::Reading(unread)) => {
                let (frames, _) = unread.take(bytes);
                state.freed(frames);
            }
            Some(Entry::Connection(connection)) => {
                let (frames, bytes) = connection.unread.take(bytes);
                state.connection_frames -= frames;
                state.connection_bytes -= bytes;
            }
            Some(Entry::Writing) | None => {}
        }
    }

    /// Lets go of a stream; `closed` says whether the host's direction of it was.
    fn dropped(&self, stream: u32, closed: bool) {
        let mut state = self.lock();
        match state.streams.remove(&stream) {
            Some(Entry::Reading(unread)) => {
                state.own -= 1;
                state.freed(unread.frames.len());
            }
            Some(Entry::Connection(Connection { unread, .. })) => {
                state.connection_frames -= unread.frames.len();
                state.connection_bytes -= unread.bytes;
                state.ends.let_go(stream, closed);
            }
            Some(Entry::Writing) => state.own -= 1,
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add_own(&mut self, stream: &Stream, entry: Entry) {
        self.streams.insert(stream.id().val(), entry);
        self.own += 1;
    }

    fn received(&mut self, stream: u32, bytes: u32) -> io::Result<()> {
        match self.streams.get_mut(&stream) {
            Some(Entry::Reading(unread)) => {
                unread.add(bytes);
                self.frames += 1;
                Ok(())
            }
            Some(Entry::Connection(Connection { unread, served, .. })) => {
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
            Some(Entry::Writing) => {
                self.breach = Some("it wrote to a stream that it may only read");
                Err(io::ErrorKind::InvalidData.into())
            }
            None => Ok(()),
        }
    }

    /// A frame to the guest has begun.
    fn spoke(&mut self, stream: u32) {
        if let Some(Entry::Connection(connection)) = self.streams.get_mut(&stream) {
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
