//! One execution, from its request to its end.
//!
//! ```text
//! streams arrived ──▶ code written ──▶ started ──▶ ended, its processes gone ──▶ pipes drained
//!                          │              │                     │
//!                          └─ NotStarted ◀┘                   Ended
//! ```
//! The guest reports the end before it drains the pipes: the reader decides how long that takes.

use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{FusedFuture, join};
use rustix::io::Errno;
use stockade_wire::{Ended, Execute, GuestMessage, NotStarted, Role, Started, Status};
use yamux::Stream;

use crate::control::Replies;
use crate::keeper::Keeper;
use crate::leaves::Leaves;
use crate::processes::{HeldBy, Processes};
use crate::program::{Settings, StartFailure, start};
use crate::pump;
use crate::reactor::{Descriptor, Reactor};
use crate::waiting::Waiting;

/// The parts of the guest that an execution uses.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) reactor: Reactor,
    pub(crate) processes: Rc<Processes>,
    pub(crate) waiting: Waiting,
    /// Whether a byte came from the host since the last heartbeat check cleared this.
    pub(crate) heard: Rc<Cell<bool>>,
    /// The descriptor limit of programs, if it is lower than the guest's.
    pub(crate) program_files: Option<u64>,
    /// The guest's own `oom_score_adj`, if it could be opened.
    pub(crate) oom_score: Option<Rc<File>>,
    /// The cgroup leaves, if executions have any.
    pub(crate) leaves: Option<Rc<Leaves>>,
}

/// Runs one execution and reports its end. Calls `started` once the program runs, and returns a
/// future that sends the rest of its output.
pub(crate) async fn run(
    request: Execute,
    state: &State,
    replies: &Replies,
    started: &dyn Fn(),
) -> Option<impl Future<Output = ()> + use<>> {
    let execution = request.execution;
    let stdin = state.waiting.take(execution, Role::Input).await;
    let stdout = state.waiting.take(execution, Role::Output).await;
    let stderr = state.waiting.take(execution, Role::Error).await;
    let written = write_code(&request, state).await;
    state.processes.settled().await;
    match written.and_then(|()| Running::start(&request, state)) {
        Ok(running) => {
            started();
            replies.send(GuestMessage::Started(Started { execution }));
            let streams = [stdin, stdout, stderr];
            let (status, rest) = running.finish(streams, execution, &state.processes).await;
            replies.send(GuestMessage::Ended(Ended { execution, status }));
            rest
        }
        Err(StartFailure { errno, about: program }) => {
            replies.send(GuestMessage::NotStarted(NotStarted { execution, errno, program }));
            None
        }
    }
}

async fn write_code(request: &Execute, state: &State) -> Result<(), StartFailure> {
    let Some(code) = &request.code else { return Ok(()) };
    let mut stream = state.waiting.take(request.execution, Role::Code).await;
    crate::code::receive(Path::new(code.path.as_str()), code.bytes, &mut stream)
        .await
        .map_err(|error| StartFailure::new(&error, &code.path))
}

/// The files of the request's cgroup leaf.
fn leaf(request: &Execute, state: &State) -> Result<Vec<OwnedFd>, StartFailure> {
    let Some(number) = request.leaf else { return Ok(Vec::new()) };
    let missing = || Err(Errno::BADF.into());
    let files = state.leaves.as_ref().map_or_else(missing, |leaves| leaves.take(number));
    files.map_err(|error| StartFailure::new(&error, &request.program))
}

/// A running program, with the guest's ends of its pipes.
struct Running {
    stdin: Descriptor,
    stdout: Descriptor,
    stderr: Descriptor,
}

impl Running {
    fn start(request: &Execute, state: &State) -> Result<Running, StartFailure> {
        let leaf = leaf(request, state)?;
        let settings = Settings {
            open_files: state.program_files,
            oom_score: state.oom_score.as_deref(),
            cgroups: &leaf,
            needs_keeper: leaf.is_empty() && state.processes.needs_keeper(),
        };
        let program = start(request, settings)?;
        let held = match (&program.keeper, leaf.is_empty()) {
            (Some(keeper), _) => HeldBy::Keeper(keeper.pid),
            (None, false) => HeldBy::Leaf,
            (None, true) => HeldBy::Nothing,
        };
        drop(leaf);
        state.processes.lead(request.execution, program.pid, held);
        if let Some(Keeper { report, .. }) = program.keeper {
            let processes = Rc::clone(&state.processes);
            let report = Descriptor::new(report, &state.reactor);
            let execution = request.execution;
            state.reactor.spawn(async move { processes.hear_keeper(execution, report).await });
        }
        let wrap = |pipe| Descriptor::new(pipe, &state.reactor);
        let wrapped = || -> io::Result<Running> {
            let stdin = wrap(program.stdin.into())?;
            let stdout = wrap(program.stdout.into())?;
            let stderr = wrap(program.stderr.into())?;
            Ok(Running { stdin, stdout, stderr })
        };
        wrapped().map_err(|error| {
            state.processes.kill(request.execution);
            StartFailure::new(&error, &request.program)
        })
    }

    /// Moves bytes until the program and its processes have ended. Returns a future that moves the
    /// rest of the output, if any may be left.
    async fn finish(
        self,
        streams: [Stream; 3],
        execution: u64,
        processes: &Processes,
    ) -> (Status, Option<impl Future<Output = ()> + use<>>) {
        let [stdin, stdout, stderr] = streams;
        // Input that the program did not read is dropped when it ends.
        let mut input = pin!(pump::input(stdin, self.stdin).fuse());
        let output = join(pump::output(self.stdout, stdout), pump::output(self.stderr, stderr));
        let mut output = Box::pin(output.fuse());
        let mut end = pin!(processes.end(execution));
        let status = poll_fn(|context| {
            // The end first: it depends on neither pipe.
            let ended = end.as_mut().poll(context);
            let _ = input.as_mut().poll(context);
            let _ = output.as_mut().poll(context);
            ended
        })
        .await;
        let rest = (!output.is_terminated()).then(|| output.map(|_| ()));
        (status, rest)
    }
}
