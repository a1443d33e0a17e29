//! The guest's life on its stream.
//!
//! ```text
//! prepared ──▶ connected ── hello ──▶ serving ── end of stream ──▶ every process killed, done
//!                  │                     │
//!                  └── anything else ────┴──▶ every process killed, the exit says why
//! ```

use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::io::AsyncWriteExt;
use rustix::fs::Mode as FileMode;
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, umask};
use stockade_launcher::Provisions;
use stockade_sys::{close_on_exec_from, ignore_signal, keep_freed_memory};
use stockade_wire::{GuestExit, StreamHeader, read_message};
use yamux::{Config, Connection, ConnectionError, FrameDecodeError, Mode};

use crate::control::converse;
use crate::execution::Surroundings;
use crate::listeners::Own;
use crate::opener::Opener;
use crate::processes::{Processes, Reach};
use crate::reactor::{Descriptor, Reactor};
use crate::socket::{Ends, Socket};
use crate::waiting::Waiting;
use crate::way_out::Doors;

/// The most streams that are open at once. The connection does not outlive one stream too many, and
/// so nothing comes near: the host counts those of executions, and the doors those of connections.
const MAX_STREAMS: usize = 1 << 18;
const WINDOW_BYTES: usize = 256 << 10;
/// By how much the windows of all streams together may grow, for those through which much comes.
const WINDOW_GROWTH_BYTES: usize = 8 << 20;
/// How much memory is kept for the next frames, where there is a way out.
const KEPT_BYTES: usize = 2 << 20;
/// The most bytes of one frame: what one read of a pipe gives.
const SEND_BYTES: usize = 64 << 10;

/// Serves the host on a stream until it ends, and what connections of programs arrive at, if there
/// is something.
///
/// The process must have one thread. On return everything that was started has been killed, and
/// the process shall end: as the first of its pid namespace it takes all others with it.
pub fn serve(stream: OwnedFd, provisions: Provisions) -> GuestExit {
    let Provisions { listeners, tools, program_files, oom_score } = provisions;
    let doors = Doors::of(listeners, tools);
    let reach = Reach::of_this_process();
    let oom_score = oom_score.or_else(own_oom_score);
    let place = Place { reach, lifeline: None, doors, program_files, oom_score };
    serve_at(Stream::Socket(stream), place).unwrap_or(GuestExit::Unprepared)
}

/// The same on one descriptor for each direction, such as a container's standard input and output,
/// in a wall that has no launcher of ours: the guest opens the listeners itself.
///
/// An error says which of them it could not open.
pub fn serve_on_pair(reader: OwnedFd, writer: OwnedFd, own: Own) -> io::Result<GuestExit> {
    let doors = Doors::open(own)?;
    let reach = Reach::of_this_process();
    let oom_score = own_oom_score();
    let place = Place { reach, lifeline: None, doors, program_files: None, oom_score };
    serve_at(Stream::Pair { reader, writer }, place)
}

/// The same where no pid namespace holds everybody together. The process is in a domain or has ids
/// that its signals do not leave, and orphans below it become its children. `lifeline` ends with
/// the launcher, and everybody with it.
pub fn serve_confined(stream: OwnedFd, lifeline: OwnedFd) -> GuestExit {
    match Reach::confined() {
        Some(reach) => {
            let lifeline = Some(lifeline);
            let place =
                Place { reach, lifeline, doors: None, program_files: None, oom_score: None };
            serve_at(Stream::Socket(stream), place).unwrap_or(GuestExit::Unprepared)
        }
        None => GuestExit::Unprepared,
    }
}

/// The guest's own score for the OOM killer, where no launcher has opened it. Opened before the
/// guest stops being dumpable, after which its files in /proc belong to root, proc(5).
fn own_oom_score() -> Option<File> {
    File::options().write(true).open("/proc/self/oom_score_adj").ok()
}

/// The stream to the host.
enum Stream {
    Socket(OwnedFd),
    Pair { reader: OwnedFd, writer: OwnedFd },
}

impl Stream {
    fn ends(self, reactor: &Reactor) -> io::Result<Ends> {
        Ok(match self {
            Stream::Socket(socket) => Ends::Socket(Descriptor::new(socket, reactor)?),
            Stream::Pair { reader, writer } => Ends::Pair {
                reader: Descriptor::new(reader, reactor)?,
                writer: Descriptor::new(writer, reactor)?,
            },
        })
    }
}

/// Where the guest serves.
struct Place {
    reach: Reach,
    lifeline: Option<OwnedFd>,
    doors: Option<Doors>,
    program_files: Option<u64>,
    oom_score: Option<File>,
}

/// An error says that nothing was served.
fn serve_at(stream: Stream, mut place: Place) -> io::Result<GuestExit> {
    let (reactor, opener) = match &place.doors {
        Some(_) => {
            // Frames come and go, and each would cost the kernel's pages anew.
            keep_freed_memory(KEPT_BYTES);
            (Reactor::for_many()?, Some(Opener::default()))
        }
        None => (Reactor::default(), None),
    };
    let around = prepare(&mut place, &reactor)?;
    let socket = Socket::new(stream.ends(&reactor)?, opener.as_ref(), Rc::clone(&around.heard));
    let lifeline = place.lifeline.map(|end| Descriptor::new(end, &reactor)).transpose()?;
    if let (Some(doors), Some(opener)) = (place.doors, &opener) {
        doors.serve(opener, &reactor)?;
    }
    let mut config = Config::default();
    // Every stream has its first window, and beside that windows grow only with a way out.
    let growth = opener.as_ref().map_or(0, |_| WINDOW_GROWTH_BYTES);
    config
        .set_max_connection_receive_window(None)
        .set_max_num_streams(MAX_STREAMS)
        .set_max_connection_receive_window(Some(MAX_STREAMS * WINDOW_BYTES + growth))
        .set_split_send_size(SEND_BYTES);
    let mut service = Service {
        connection: Connection::new(socket, config, Mode::Server),
        control: None,
        greeted: Rc::default(),
        around,
        lifeline,
        opener,
    };
    let exit = reactor.run(poll_fn(|context| service.poll(context)));
    service.around.processes.kill_all();
    Ok(exit.unwrap_or(GuestExit::Stream))
}

fn prepare(place: &mut Place, reactor: &Reactor) -> io::Result<Surroundings> {
    // A guest that can be traced or read through /proc would lend its place to a program inside.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    for signal in [Signal::PIPE, Signal::TERM, Signal::INT, Signal::HUP] {
        ignore_signal(signal)?;
    }
    close_on_exec_from(3)?;
    umask(FileMode::WGRP | FileMode::WOTH);
    let processes = Rc::new(Processes::new(place.reach, reactor)?);
    let reaper = Rc::clone(&processes);
    reactor.spawn(async move { reaper.reap().await });
    Ok(Surroundings {
        reactor: reactor.clone(),
        processes,
        waiting: Waiting::default(),
        heard: Rc::default(),
        program_files: place.program_files,
        oom_score: place.oom_score.take().map(Rc::new),
    })
}

/// The connection, and the conversation on its first stream.
struct Service {
    connection: Connection<Socket>,
    control: Option<Pin<Box<dyn Future<Output = GuestExit>>>>,
    greeted: Rc<Cell<bool>>,
    around: Surroundings,
    /// Nothing is ever written to it; it ends when the launcher does.
    lifeline: Option<Descriptor>,
    /// Opens streams for connections of programs.
    opener: Option<Opener>,
}

impl Service {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<GuestExit> {
        if let Some(lifeline) = &self.lifeline
            && lifeline.poll_read(context, &mut [0]).is_ready()
        {
            return Poll::Ready(self.exit_at_the_end());
        }
        if let Some(opener) = &self.opener {
            opener.poll(context, &mut self.connection);
        }
        loop {
            match self.connection.poll_next_inbound(context) {
                Poll::Ready(Some(Ok(stream))) => self.accept(stream),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(self.exit_after(&error)),
                Poll::Ready(None) => return Poll::Ready(self.exit_at_the_end()),
                Poll::Pending => break,
            }
        }
        match &mut self.control {
            Some(control) => control.as_mut().poll(context),
            None => Poll::Pending,
        }
    }

    /// The first stream is the control stream; every other says itself what it is.
    fn accept(&mut self, stream: yamux::Stream) {
        if self.control.is_none() {
            let greeted = Rc::clone(&self.greeted);
            self.control = Some(Box::pin(converse(stream, self.around.clone(), greeted)));
        } else {
            let waiting = self.around.waiting.clone();
            self.around.reactor.spawn(introduce(stream, waiting));
        }
    }

    fn exit_at_the_end(&self) -> GuestExit {
        if self.greeted.get() { GuestExit::Done } else { GuestExit::Closed }
    }

    fn exit_after(&self, error: &ConnectionError) -> GuestExit {
        match error {
            ConnectionError::Io(error) | ConnectionError::Decode(FrameDecodeError::Io(error)) => {
                match error.kind() {
                    // A socket that is closed with unread bytes resets instead of ending, unix(7).
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof => self.exit_at_the_end(),
                    _ => GuestExit::Stream,
                }
            }
            ConnectionError::Decode(_) => GuestExit::Malformed,
            ConnectionError::Closed => self.exit_at_the_end(),
            _ => GuestExit::Stream,
        }
    }
}

/// Reads what a stream is and leaves it for its execution; one that does not say is closed.
async fn introduce(mut stream: yamux::Stream, waiting: Waiting) {
    // Nothing, which acknowledges the stream: the host opens no more than 256 that are not.
    let _ = stream.write(&[]).await;
    if let Ok(header) = read_message::<StreamHeader, _>(&mut stream).await {
        waiting.arrived(header, stream);
    }
}
