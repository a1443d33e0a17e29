//! One execution, from its request to its end.
//!
//! ```text
//! streams arrived ──▶ code written ──▶ started ──▶ ended, its processes gone ──▶ pipes drained
//!                          │              │                     │
//!                          └─ NotStarted ◀┘                   Ended
//! ```
//! The guest reports the end before the pipes are drained: how long that takes is up to the reader.

use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{FusedFuture, join};
use stockade_wire::{Ended, Execute, GuestMessage, NotStarted, Role, Started, Status};
use yamux::Stream;

use crate::control::Replies;
use crate::processes::Processes;
use crate::program::{StartFailure, start};
use crate::pump;
use crate::reactor::{Descriptor, Reactor};
use crate::waiting::Waiting;

/// What an execution needs of the guest.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) reactor: Reactor,
    pub(crate) processes: Rc<Processes>,
    pub(crate) waiting: Waiting,
    /// Whether a byte came from the host since this was last taken.
    pub(crate) heard: Rc<Cell<bool>>,
    /// How many descriptors a program may have, where that is fewer than the guest may.
    pub(crate) program_files: Option<u64>,
    /// The guest's own score for the OOM killer, where the launcher has opened it.
    pub(crate) oom_score: Option<Rc<File>>,
}

/// Runs one execution and reports it. `started` is called once it runs. What is returned sends the
/// rest of its output.
pub(crate) async fn run(
    request: Execute,
    around: &Surroundings,
    replies: &Replies,
    started: &dyn Fn(),
) -> Option<impl Future<Output = ()> + use<>> {
    let execution = request.execution;
    let stdin = around.waiting.take(execution, Role::Input).await;
    let stdout = around.waiting.take(execution, Role::Output).await;
    let stderr = around.waiting.take(execution, Role::Error).await;
    let written = write_code(&request, around).await;
    around.processes.settled().await;
    match written.and_then(|()| Running::start(&request, around)) {
        Ok(running) => {
            started();
            replies.send(GuestMessage::Started(Started { execution }));
            let streams = [stdin, stdout, stderr];
            let (status, rest) = running.finish(streams, execution, &around.processes).await;
            replies.send(GuestMessage::Ended(Ended { execution, status }));
            rest
        }
        Err(StartFailure { errno, about: program }) => {
            replies.send(GuestMessage::NotStarted(NotStarted { execution, errno, program }));
            None
        }
    }
}

async fn write_code(request: &Execute, around: &Surroundings) -> Result<(), StartFailure> {
    let Some(code) = &request.code else { return Ok(()) };
    let mut stream = around.waiting.take(request.execution, Role::Code).await;
    crate::code::receive(Path::new(code.path.as_str()), code.bytes, &mut stream)
        .await
        .map_err(|error| StartFailure::new(&error, &code.path))
}

/// A program that runs, with our ends of its pipes.
struct Running {
    stdin: Descriptor,
    stdout: Descriptor,
    stderr: Descriptor,
}

impl Running {
    fn start(request: &Execute, around: &Surroundings) -> Result<Running, StartFailure> {
        let program = start(request, around.program_files, around.oom_score.as_deref())?;
        around.processes.lead(request.execution, program.pid);
        let wrap = |pipe| Descriptor::new(pipe, &around.reactor);
        let wrapped = || -> io::Result<Running> {
            let stdin = wrap(program.stdin.into())?;
            let stdout = wrap(program.stdout.into())?;
            let stderr = wrap(program.stderr.into())?;
            Ok(Running { stdin, stdout, stderr })
        };
        wrapped().map_err(|error| {
            around.processes.kill(request.execution);
            StartFailure::new(&error, &request.program)
        })
    }

    /// Moves bytes until the program and its processes have ended. Returns what moves the rest, if
    /// something may be left.
    async fn finish(
        self,
        streams: [Stream; 3],
        execution: u64,
        processes: &Processes,
    ) -> (Status, Option<impl Future<Output = ()> + use<>>) {
        let [stdin, stdout, stderr] = streams;
        // Input that nobody reads any more is dropped with the end.
        let mut input = pin!(pump::input(stdin, self.stdin).fuse());
        let output = join(pump::output(self.stdout, stdout), pump::output(self.stderr, stderr));
        let mut output = Box::pin(output.fuse());
        let mut end = pin!(processes.end(execution));
        let status = poll_fn(|context| {
            // The end first: it waits for nobody.
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
