//! One execution, from its request to its end.
//!
//! ```text
//! streams arrived ──▶ code written ──▶ started ──▶ ended, everybody killed and reaped
//!                          │              │                     │
//!                          └─ NotStarted ◀┘        pipes drained, then Ended
//! ```

use std::io;
use std::path::Path;
use std::rc::Rc;

use futures_util::future::{Either, join3, select};
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
}

/// Runs one execution and reports it.
pub(crate) async fn run(request: Execute, around: &Surroundings, replies: &Replies) {
    let execution = request.execution;
    let stdin = around.waiting.take(execution, Role::Input).await;
    let stdout = around.waiting.take(execution, Role::Output).await;
    let stderr = around.waiting.take(execution, Role::Error).await;
    let started = match write_code(&request, around).await {
        Ok(()) => Running::start(&request, around),
        Err(failure) => Err(failure),
    };
    match started {
        Ok(running) => {
            replies.send(GuestMessage::Started(Started { execution }));
            let status = running.finish([stdin, stdout, stderr], &around.processes).await;
            replies.send(GuestMessage::Ended(Ended { execution, status }));
        }
        Err(StartFailure { errno, about: program }) => {
            replies.send(GuestMessage::NotStarted(NotStarted { execution, errno, program }));
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
        let program = start(request)?;
        around.processes.lead(program.pid);
        let wrap = |pipe| Descriptor::new(pipe, &around.reactor);
        let wrapped = || -> io::Result<Running> {
            let stdin = wrap(program.stdin.into())?;
            let stdout = wrap(program.stdout.into())?;
            let stderr = wrap(program.stderr.into())?;
            Ok(Running { stdin, stdout, stderr })
        };
        wrapped().map_err(|error| {
            around.processes.kill();
            StartFailure::new(&error, &request.program)
        })
    }

    /// Moves bytes until the program has ended and all that was written has been sent.
    async fn finish(self, streams: [Stream; 3], processes: &Processes) -> Status {
        let [stdin, stdout, stderr] = streams;
        let input = Box::pin(pump::input(stdin, self.stdin));
        let rest = Box::pin(join3(
            processes.end(),
            pump::output(self.stdout, stdout),
            pump::output(self.stderr, stderr),
        ));
        // Input that nobody reads any more must not keep the execution from ending.
        let (status, (), ()) = match select(input, rest).await {
            Either::Left(((), rest)) => rest.await,
            Either::Right((finished, _)) => finished,
        };
        status
    }
}
