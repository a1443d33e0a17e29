//! The guest's lifecycle on its stream.
//!
//! ```text
//! prepared ──▶ connected ── hello ──▶ serving ── end of stream ──▶ kills all processes, exits 0
//!                  │                     │
//!                  └── anything else ────┴──▶ kills all processes, exits with an error code
//! ```

use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::io::AsyncWriteExt;
use rustix::fs::Mode as FileMode;
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, umask};
use stockade_launcher::Provisions;
use stockade_sys::{close_on_exec_from, ignore_signal, keep_freed_memory};
use stockade_wire::{GuestExit, Role, StreamHeader, read_message};
use yamux::{Config, Connection, ConnectionError, FrameDecodeError, Mode};

use crate::acceptors::Acceptors;
use crate::callers::Callers;
use crate::control::converse;
use crate::execution::State;
use crate::files;
use crate::leaves::Leaves;
use crate::listeners::Own;
use crate::opener::Opener;
use crate::ports;
use crate::processes::{Processes, Reach};
use crate::reactor::{Descriptor, Reactor};
use crate::socket::{Ends, Socket};
use crate::waiting::WaitingStreams;

/// The maximum number of open streams. One more would end the connection, but other limits prevent
/// that: the host limits the streams of executions, and the guest those of connections.
const MAX_STREAMS: usize = 1 << 18;
const WINDOW_BYTES: usize = 256 << 10;
/// By how much the windows of busy streams may grow in total.
const WINDOW_GROWTH_BYTES: usize = 8 << 20;
/// How much freed memory to keep for the next frames if there is a network or tools.
const KEPT_BYTES: usize = 2 << 20;
/// The maximum size of a frame: the size of one read from a pipe.
const SEND_BYTES: usize = 64 << 10;

/// Serves the host on a stream until it ends, and relays the connections of programs.
///
/// The process must have one thread. On return every started process has been killed, and the
/// caller must exit: the end of the first process ends its pid namespace.
pub fn serve(stream: OwnedFd, provisions: Provisions) -> GuestExit {
    let Provisions { listeners, tools, denials, program_files, oom_score, leaves, uppers } =
        provisions;
    let acceptors = Acceptors::of(listeners, tools, denials);
    let reach = Reach::of_this_process();
    let oom_score = oom_score.or_else(own_oom_score);
    let lifeline = None;
    let place = Setup { reach, lifeline, acceptors, program_files, oom_score, leaves, uppers };
    serve_at(Stream::Socket(stream), place).unwrap_or(GuestExit::Unprepared)
}

/// Like [`serve`], with one descriptor for each direction, such as a container's standard input and
/// output, in a wall without our launcher: the guest opens the listeners itself.
///
/// `uppers` are the upper layers of overlays, by the paths of the overlays. The error names the
/// listener that could not be opened.
pub fn serve_on_pair(
    reader: OwnedFd,
    writer: OwnedFd,
    own: Own,
    uppers: Vec<(PathBuf, OwnedFd)>,
) -> io::Result<GuestExit> {
    let program_files = own.program_files;
    let acceptors = Acceptors::open(own)?;
    let reach = Reach::of_this_process();
    let oom_score = own_oom_score();
    let (lifeline, leaves) = (None, None);
    let place = Setup { reach, lifeline, acceptors, program_files, oom_score, leaves, uppers };
    serve_at(Stream::Pair { reader, writer }, place)
}

/// Like [`serve`], without a pid namespace: a Landlock domain or the process's ids confine its
/// signals, and orphans are reparented to it. `lifeline` ends when the launcher does, and then the
/// guest kills every process. `leaves` is the socket for cgroup leaves, if executions have any.
pub fn serve_confined(stream: OwnedFd, lifeline: OwnedFd, leaves: Option<OwnedFd>) -> GuestExit {
    match Reach::confined() {
        Some(reach) => {
            let (lifeline, acceptors) = (Some(lifeline), None);
            let (program_files, oom_score, uppers) = (None, None, Vec::new());
            let place =
                Setup { reach, lifeline, acceptors, program_files, oom_score, leaves, uppers };
            serve_at(Stream::Socket(stream), place).unwrap_or(GuestExit::Unprepared)
        }
        None => GuestExit::Unprepared,
    }
}

/// The guest's own `oom_score_adj`, if no launcher has opened it. Opened before the guest becomes
/// undumpable, because its files in /proc then belong to root, proc(5).
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

/// The environment of the guest.
struct Setup {
    reach: Reach,
    lifeline: Option<OwnedFd>,
    acceptors: Option<Acceptors>,
    program_files: Option<u64>,
    oom_score: Option<File>,
    leaves: Option<OwnedFd>,
    uppers: Vec<(PathBuf, OwnedFd)>,
}

/// An error means that the guest did not start to serve.
fn serve_at(stream: Stream, mut place: Setup) -> io::Result<GuestExit> {
    let (reactor, opener) = match &place.acceptors {
        Some(_) => {
            // Every frame allocates; returning the memory to the kernel each time would cost page
            // faults.
            keep_freed_memory(KEPT_BYTES);
            (Reactor::for_many()?, Some(Opener::default()))
        }
        None => (Reactor::default(), None),
    };
    let state = prepare(&mut place, &reactor)?;
    let socket = Socket::new(stream.ends(&reactor)?, opener.as_ref(), Rc::clone(&state.heard));
    let lifeline = place.lifeline.map(|end| Descriptor::new(end, &reactor)).transpose()?;
    if let (Some(acceptors), Some(opener)) = (place.acceptors, &opener) {
        opener.callers.get_or_init(|| Callers::new(&state.processes));
        acceptors.serve(opener, &reactor)?;
    }
    let mut config = Config::default();
    // Each stream has its initial window; windows grow only if there is a network or tools.
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
        state,
        lifeline,
        opener,
    };
    let exit = reactor.run(poll_fn(|context| service.poll(context)));
    service.state.processes.kill_all();
    Ok(exit.unwrap_or(GuestExit::Stream))
}

fn prepare(place: &mut Setup, reactor: &Reactor) -> io::Result<State> {
    // A program inside that could trace the guest, or read it through /proc, could act as the
    // guest.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    for signal in [Signal::PIPE, Signal::TERM, Signal::INT, Signal::HUP] {
        ignore_signal(signal)?;
    }
    close_on_exec_from(3)?;
    umask(FileMode::WGRP | FileMode::WOTH);
    let processes = Rc::new(Processes::new(place.reach, reactor)?);
    let reaper = Rc::clone(&processes);
    reactor.spawn(async move { reaper.reap().await });
    Ok(State {
        reactor: reactor.clone(),
        processes,
        waiting: WaitingStreams::default(),
        heard: Rc::default(),
        program_files: place.program_files,
        oom_score: place.oom_score.take().map(Rc::new),
        leaves: place.leaves.take().map(|socket| Rc::new(Leaves::new(socket))),
        uppers: Rc::new(std::mem::take(&mut place.uppers)),
        prepared: Rc::default(),
    })
}

/// The connection, and the control conversation on its first stream.
struct Service {
    connection: Connection<Socket>,
    control: Option<Pin<Box<dyn Future<Output = GuestExit>>>>,
    greeted: Rc<Cell<bool>>,
    state: State,
    /// The launcher never writes to it; it ends when the launcher does.
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

    /// The first stream is the control stream; every other starts with a header.
    fn accept(&mut self, stream: yamux::Stream) {
        if self.control.is_none() {
            let greeted = Rc::clone(&self.greeted);
            self.control = Some(Box::pin(converse(stream, self.state.clone(), greeted)));
        } else {
            self.state.reactor.spawn(introduce(stream, self.state.clone()));
        }
    }

    fn exit_at_the_end(&self) -> GuestExit {
        if self.greeted.get() { GuestExit::Done } else { GuestExit::Closed }
    }

    fn exit_after(&self, error: &ConnectionError) -> GuestExit {
        match error {
            ConnectionError::Io(error) | ConnectionError::Decode(FrameDecodeError::Io(error)) => {
                match error.kind() {
                    // A socket closed with unread bytes resets its peer, unix(7).
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

/// Reads the header of a stream and keeps the stream for its execution, carries out its operation on
/// files, or connects it to a server; drops it without a header.
async fn introduce(mut stream: yamux::Stream, state: State) {
    // An empty write acknowledges the stream: the host opens at most 256 unacknowledged streams.
    let _ = stream.write(&[]).await;
    match read_message::<StreamHeader, _>(&mut stream).await {
        Ok(StreamHeader { role: Role::Files, .. }) => files::operate(stream, &state).await,
        Ok(StreamHeader { role: Role::Port, .. }) => ports::serve(stream, &state).await,
        Ok(header) => state.waiting.arrived(header, stream),
        Err(_) => {}
    }
}
