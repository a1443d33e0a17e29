//! One execution, from its request to its end.
//!
//! ```text
//! streams arrived ──▶ code written ──▶ started ──▶ ended, its processes gone ──▶ streams drained
//!                          │              │                     │
//!                          └─ NotStarted ◀┘                   Ended
//! ```
//! The guest reports the end before it drains the streams: the reader decides how long that takes.

use std::cell::Cell;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use rustix::io::Errno;
use stockade_wire::{Ended, Execute, ExecutionStarted, GuestMessage, NotStarted, Role, Status};

use crate::code::{self, Received};
use crate::control::Replies;
use crate::keeper::Keeper;
use crate::leaves::Leaves;
use crate::prepared::Preparation;
use crate::processes::{HeldBy, Processes};
use crate::program::{Settings, StartFailure, start};
use crate::reactor::{Descriptor, Reactor};
use crate::stdio::{self, Ours, Remote, Theirs};
use crate::terminal::Terminal;
use crate::waiting::WaitingStreams;

/// The parts of the guest that an execution uses.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) reactor: Reactor,
    pub(crate) processes: Rc<Processes>,
    pub(crate) waiting: WaitingStreams,
    /// Whether a byte came from the host since the last heartbeat check cleared this.
    pub(crate) heard: Rc<Cell<bool>>,
    /// The descriptor limit of programs, if it is lower than the guest's.
    pub(crate) program_files: Option<u64>,
    /// The guest's own `oom_score_adj`, if it could be opened.
    pub(crate) oom_score: Option<Rc<File>>,
    /// The cgroup leaves, if executions have any.
    pub(crate) leaves: Option<Rc<Leaves>>,
    /// The upper layers of overlays, by the paths of the overlays.
    pub(crate) uppers: Rc<Vec<(PathBuf, OwnedFd)>>,
    pub(crate) prepared: Rc<Preparation>,
}

/// Runs one execution and reports its end. Calls `started` once the program runs, and returns a
/// future that sends the rest of its output.
pub(crate) async fn run(
    request: Execute,
    terminal: Option<io::Result<(Rc<Terminal>, OwnedFd)>>,
    state: &State,
    replies: &Replies,
    started: &dyn Fn(),
) -> Option<impl Future<Output = ()> + use<>> {
    let execution = request.execution;
    let remote = Remote {
        stdin: state.waiting.take(execution, Role::Input).await,
        stdout: state.waiting.take(execution, Role::Output).await,
        stderr: state.waiting.take(execution, Role::Error).await,
    };
    let written = write_code(&request, state).await;
    let is_plain = matches!(&written, Ok(Some(code)) if code.received.is_plain);
    state.prepared.make_way(&request, is_plain, state);
    state.processes.settled().await;
    match written.and_then(|code| started_program(&request, terminal, code, state)) {
        Ok(streams) => {
            started();
            replies.send(GuestMessage::Started(ExecutionStarted { execution }));
            let (status, rest) = finish(streams, remote, execution, &state.processes).await;
            replies.send(GuestMessage::Ended(Ended { execution, status }));
            state.prepared.start(state);
            rest
        }
        Err(StartFailure { errno, about: program }) => {
            replies.send(GuestMessage::NotStarted(NotStarted { execution, errno, program }));
            None
        }
    }
}

/// The code of an execution, in a file.
struct Code {
    received: Received,
    /// Where it is, if a prepared interpreter still waits at the path of the request.
    apart: Option<PathBuf>,
}

async fn write_code(request: &Execute, state: &State) -> Result<Option<Code>, StartFailure> {
    let Some(code) = &request.code else { return Ok(None) };
    // An interpreter that waits for other variables may have its FIFO at the path of this code.
    state.prepared.make_way(request, true, state);
    let mut stream = state.waiting.take(request.execution, Role::Code).await;
    let path = Path::new(code.path.as_str());
    let apart = state.prepared.is_for(request).then(|| path.with_added_extension("part"));
    let received = code::receive(apart.as_deref().unwrap_or(path), code.bytes, &mut stream).await;
    let received = received.map_err(|error| StartFailure::new(&error, &code.path))?;
    Ok(Some(Code { received, apart }))
}

/// Moves code that was written apart to the path of the request.
fn place_code(request: &Execute, code: Option<&Code>) -> Result<(), StartFailure> {
    let apart = code.and_then(|code| code.apart.as_deref());
    let (Some(apart), Some(file)) = (apart, &request.code) else { return Ok(()) };
    let moved = fs::rename(apart, file.path.as_str());
    moved.map_err(|error| StartFailure::new(&error, &file.path))
}

/// Starts the program and returns the guest's ends of its standard streams.
fn started_program(
    request: &Execute,
    terminal: Option<io::Result<(Rc<Terminal>, OwnedFd)>>,
    code: Option<Code>,
    state: &State,
) -> Result<Ours, StartFailure> {
    let prepared = state.prepared.take(request, state);
    let placed = place_code(request, code.as_ref()).and_then(|()| leaf(request, state));
    match (prepared, code, &placed) {
        (Some(prepared), Some(code), Ok(leaf)) if code.received.is_plain => {
            let file = code.received.file;
            if let Some(streams) = prepared.run(request, file, leaf, state) {
                return Ok(streams);
            }
        }
        (Some(prepared), ..) => prepared.discard(state),
        (None, ..) => {}
    }
    let leaf = placed?;
    let (theirs, ours) = match terminal {
        None => stdio::pipes(&state.reactor)
            .map_err(|error| StartFailure::new(&error, &request.program))?,
        Some(Ok((terminal, theirs))) => (Theirs::Terminal(theirs), Ours::Terminal(terminal)),
        Some(Err(error)) => return Err(StartFailure::of_terminal(&error)),
    };
    let settings = Settings {
        open_files: state.program_files,
        oom_score: state.oom_score.as_deref(),
        cgroups: &leaf,
        needs_keeper: leaf.is_empty() && state.processes.needs_keeper(),
    };
    let (pid, keeper) = start(request, &theirs, settings)?;
    let held = match (&keeper, leaf.is_empty()) {
        (Some(keeper), _) => HeldBy::Keeper(keeper.pid),
        (None, false) => HeldBy::Leaf,
        (None, true) => HeldBy::Nothing,
    };
    state.processes.lead(request.execution, pid, held);
    if let Some(Keeper { report, .. }) = keeper {
        let processes = Rc::clone(&state.processes);
        let report = Descriptor::new(report, &state.reactor);
        let execution = request.execution;
        state.reactor.spawn(async move { processes.hear_keeper(execution, report).await });
    }
    Ok(ours)
}

/// Moves bytes until the program and its processes have ended. Returns a future that moves the rest
/// of the output, if any may be left.
async fn finish(
    streams: Ours,
    remote: Remote,
    execution: u64,
    processes: &Processes,
) -> (Status, Option<impl Future<Output = ()> + use<>>) {
    let (input, output) = streams.carry(remote);
    // Input that the program did not read is dropped when it ends.
    let mut input = input.fuse();
    let mut output = output.fuse();
    let mut end = pin!(processes.end(execution));
    let status = poll_fn(|context| {
        // The end first: it depends on neither stream.
        let ended = end.as_mut().poll(context);
        let _ = input.poll_unpin(context);
        let _ = output.poll_unpin(context);
        ended
    })
    .await;
    let rest = (!output.is_terminated()).then_some(output);
    (status, rest)
}

/// The files of the request's cgroup leaf.
fn leaf(request: &Execute, state: &State) -> Result<Vec<OwnedFd>, StartFailure> {
    let Some(number) = request.leaf else { return Ok(Vec::new()) };
    let missing = || Err(Errno::BADF.into());
    let files = state.leaves.as_ref().map_or_else(missing, |leaves| leaves.take(number));
    files.map_err(|error| StartFailure::new(&error, &request.program))
}
