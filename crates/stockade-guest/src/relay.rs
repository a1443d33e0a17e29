//! Relays one connection of a program between its socket and a stream to the host.
//!
//! ```text
//!   program ── up ──▶ stream      talking ── the program half-closes ──▶ closing ──▶ closed
//!                                    └── the host has ended and reads no more ──▶ dropped
//!   program ◀─ down ── stream     open ── the host half-closes ──▶ ended
//!                                    └── a splice pipe ──▶ draining ── its end ──▶ open
//! ```
//! Each direction applies backpressure. An error in one direction ends both, and a reset on one
//! side becomes a reset on the other.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::io::AsyncWrite;
use rustix::net::{Shutdown, shutdown, sockopt};
use stockade_wire::Heard;
use yamux::{Packet, Stream};

use crate::listeners::Answers;
use crate::opener::{Opener, SharedEnds};
use crate::reactor::{Descriptor, Reactor};
use crate::splice::{Arrived, Draining, SplicePipes, Stopped};

/// The buffer for bytes from programs, shared by all connections: each has finished with it before
/// another is polled.
pub(crate) type Room = Rc<RefCell<Box<[u8]>>>;

/// The size of one read, and of one frame.
const ROOM_BYTES: usize = 64 << 10;

pub(crate) fn room() -> Room {
    Rc::new(RefCell::new(vec![0; ROOM_BYTES].into_boxed_slice()))
}

/// Relays a connection until it ends.
pub(crate) fn relay(
    client: Descriptor,
    stream: Stream,
    opener: &Opener,
    room: Room,
    reactor: &Reactor,
    answers: Option<Answers>,
) -> impl Future<Output = ()> + use<> {
    // Before any other future runs, and so before the splice pipe can arrive.
    opener.pipes.expect(stream.id().val());
    let mut relay = Relay {
        client,
        stream,
        ends: SharedEnds::clone(&opener.ends),
        pipes: opener.pipes.clone(),
        room,
        reactor: reactor.clone(),
        up: Up::Talking { rest: Vec::new(), sent: 0 },
        down: Down::Open { packet: None, written: 0 },
        passed: 0,
        splice: None,
        answers,
    };
    async move {
        if let Err(Broken::Host) = poll_fn(|context| relay.poll(context)).await {
            reset(&relay.client);
        }
    }
}

/// Makes the kernel reset the connection when the socket is closed.
pub(crate) fn reset(client: &Descriptor) {
    // On failure the socket closes without a reset.
    let _ = sockopt::set_socket_linger(client, Some(Duration::ZERO));
}

/// Which side broke the connection.
enum Broken {
    Host,
    Program,
}

enum Up {
    /// Bytes that did not fit in the stream; they go out before the next read.
    Talking {
        rest: Vec<u8>,
        sent: usize,
    },
    Closing,
    Closed,
    Dropped,
}

enum Down {
    Open { packet: Option<Packet>, written: usize },
    Draining(Draining),
    Ended,
}

struct Relay {
    client: Descriptor,
    stream: Stream,
    ends: SharedEnds,
    pipes: SplicePipes,
    room: Room,
    reactor: Reactor,
    up: Up,
    down: Down,
    /// How many bytes of the stream were written to the program.
    passed: u64,
    /// A splice pipe that has arrived; its bytes follow after `header.after` bytes of the stream.
    splice: Option<Arrived>,
    /// Parses the answers of the name server, if listeners are bound for them.
    answers: Option<Answers>,
}

impl Relay {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let down = self.poll_down(context);
        if let Poll::Ready(Err(broken)) = down {
            return Poll::Ready(Err(broken));
        }
        match (self.poll_up(context), down) {
            (Poll::Ready(Err(broken)), _) => Poll::Ready(Err(broken)),
            (Poll::Ready(Ok(())), Poll::Ready(_)) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            match &mut self.up {
                Up::Talking { rest, sent } if *sent < rest.len() => {
                    let stream = Pin::new(&mut self.stream);
                    match ready!(stream.poll_write(context, &rest[*sent..])) {
                        Ok(written) => *sent += written,
                        Err(_) => self.stop_talking()?,
                    }
                }
                Up::Talking { .. } => {
                    let room = Rc::clone(&self.room);
                    let mut room = room.borrow_mut();
                    match ready!(self.client.poll_read(context, &mut room)) {
                        Ok(0) => self.up = Up::Closing,
                        Ok(read) => self.send(context, &room[..read])?,
                        Err(_) => return Poll::Ready(Err(Broken::Program)),
                    }
                }
                Up::Closing => match ready!(Pin::new(&mut self.stream).poll_close(context)) {
                    Ok(()) => self.up = Up::Closed,
                    Err(_) => return Poll::Ready(self.stop_talking()),
                },
                Up::Dropped => {
                    let room = Rc::clone(&self.room);
                    let mut room = room.borrow_mut();
                    match ready!(self.client.poll_read(context, &mut room)) {
                        Ok(0) | Err(_) => return Poll::Ready(Ok(())),
                        Ok(_) => {}
                    }
                }
                Up::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Writes as much as the stream accepts, and keeps the rest.
    fn send(&mut self, context: &mut Context<'_>, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, bytes) {
                Poll::Ready(Ok(written)) => bytes = &bytes[written..],
                Poll::Ready(Err(_)) => return self.stop_talking(),
                Poll::Pending => break,
            }
        }
        self.up = Up::Talking { rest: bytes.to_vec(), sent: 0 };
        Ok(())
    }

    /// Called when the host accepts no more bytes. If the host had half-closed its direction,
    /// further bytes of the program are read and dropped; otherwise the connection is broken.
    fn stop_talking(&mut self) -> Result<(), Broken> {
        match self.heard() {
            Some(Heard::End) => {
                self.up = Up::Dropped;
                Ok(())
            }
            Some(Heard::Reset) | None => Err(Broken::Host),
        }
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            match &mut self.down {
                Down::Open { packet: Some(open), written } if *written < open.as_ref().len() => {
                    match ready!(self.client.poll_write(context, &open.as_ref()[*written..])) {
                        Ok(more) => {
                            *written += more;
                            self.passed += more as u64;
                        }
                        Err(_) => return Poll::Ready(Err(Broken::Program)),
                    }
                }
                Down::Open { packet, written } => {
                    (*packet, *written) = (None, 0);
                    let id = self.stream.id().val();
                    self.splice = self.splice.take().or_else(|| self.pipes.take(context, id));
                    if self.splice.as_ref().is_some_and(|pipe| pipe.header.after == self.passed) {
                        self.drain();
                        continue;
                    }
                    match ready!(self.stream.poll_next_unpin(context)) {
                        Some(Ok(next)) => {
                            if let Some(answers) = &mut self.answers {
                                answers.read(next.as_ref());
                            }
                            *packet = Some(next);
                        }
                        Some(Err(_)) => return Poll::Ready(Err(Broken::Host)),
                        None if self.heard() == Some(Heard::End) && self.splice.is_none() => {
                            // Fails only when the program is gone, which the other direction
                            // detects.
                            let _ = shutdown(&self.client, Shutdown::Write);
                            self.down = Down::Ended;
                        }
                        None => return Poll::Ready(Err(Broken::Host)),
                    }
                }
                // After the pipe ends, only the end of the stream may follow.
                Down::Draining(draining) => {
                    // Polling the stream updates its window, without which the host cannot send
                    // even an empty frame.
                    match self.stream.poll_next_unpin(context) {
                        Poll::Ready(Some(Ok(packet))) if packet.as_ref().is_empty() => continue,
                        Poll::Ready(Some(_)) => return Poll::Ready(Err(Broken::Host)),
                        Poll::Ready(None) => {
                            let id = self.stream.id().val();
                            if self.ends.borrow().heard(id) != Some(Heard::End) {
                                return Poll::Ready(Err(Broken::Host));
                            }
                        }
                        Poll::Pending => {}
                    }
                    match ready!(draining.poll(context, &self.client)) {
                        Ok(()) => self.down = Down::Open { packet: None, written: 0 },
                        Err(Stopped::Reading) => return Poll::Ready(Err(Broken::Host)),
                        Err(Stopped::Writing) => return Poll::Ready(Err(Broken::Program)),
                    }
                }
                Down::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    fn drain(&mut self) {
        if let Some(Arrived { pipe, kept, .. }) = self.splice.take() {
            let pipe = Descriptor::new_nonblocking(pipe, &self.reactor);
            self.down = Down::Draining(Draining::new(pipe, kept));
        }
    }

    fn heard(&self) -> Option<Heard> {
        self.ends.borrow().heard(self.stream.id().val())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let closed = matches!(self.up, Up::Closed);
        self.ends.borrow_mut().release(self.stream.id().val(), closed);
        self.pipes.forget(self.stream.id().val());
    }
}
