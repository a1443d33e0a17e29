//! Operations on files.
//!
//! ```text
//! stream of the host ══ copied unread ══ two pipes ══ a child process: one operation, then its end
//! ```
//! A child process, because a file system may block for long, and the guest may not.

mod change;
mod chunks;
mod fault;
mod list;
mod read;
mod root;
mod serve;
mod stat;
mod state;
mod transfer;
mod watch;
mod write;

use std::io;
use std::os::fd::AsFd;
use std::pin::pin;

use futures_util::future::select;
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use rustix::pipe::fcntl_setpipe_size;
use stockade_sys::run_in_child;
use stockade_wire::{FileFailure, FileFault, FileReply, PathBytes, encode};
use yamux::Stream;

use crate::execution::State;
use crate::pump;
use crate::reactor::Descriptor;

/// How much a pipe takes before its other end must run.
const PIPE_BYTES: usize = 256 << 10;

/// Serves one operation until it or its stream ends.
pub(crate) async fn operate(mut stream: Stream, state: &State) {
    // A child that starts while everything is killed would be killed too.
    state.processes.settled().await;
    match start(state) {
        Ok((input, output)) => {
            let (reader, writer) = stream.split();
            // The child ends when either of its pipes does.
            select(pin!(pump::input(reader, input)), pin!(pump::output(output, writer))).await;
        }
        Err(error) => {
            let errno = error.raw_os_error();
            let path = PathBytes::try_from(Vec::new()).expect("no bytes are a path");
            let failure = FileFailure { fault: FileFault::Busy, errno, path };
            if let Ok(reply) = encode(&FileReply::Failed(failure)) {
                let bytes = [chunks::END.as_slice(), &reply].concat();
                let _ = stream.write_all(&bytes).await;
                let _ = stream.close().await;
            }
        }
    }
}

/// Starts the child; returns the guest's ends of its pipes.
fn start(state: &State) -> io::Result<(Descriptor, Descriptor)> {
    let (its_input, input) = io::pipe()?;
    let (output, its_output) = io::pipe()?;
    for pipe in [input.as_fd(), output.as_fd()] {
        // Fails for a user with too many pipes, pipe(7), whose trees then take more wake-ups.
        let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
    }
    let uppers = state.uppers.iter().map(|(_, upper)| upper.as_fd()).collect::<Vec<_>>();
    let paths: Vec<_> = state.uppers.iter().map(|(path, _)| path.clone()).collect();
    let stops_programs = state.leaves.is_none();
    let helpers = state.processes.helpers();
    let work = |input, output, uppers| {
        let uppers = paths.into_iter().zip(uppers).collect();
        let scope = state::CaptureScope { uppers, stops_programs, helpers };
        serve::serve(input, output, &scope);
    };
    let child = run_in_child(its_input.into(), its_output.into(), &uppers, work)?;
    state.processes.help(child);
    let input = Descriptor::new(input.into(), &state.reactor)?;
    let output = Descriptor::new(output.into(), &state.reactor)?;
    Ok((input, output))
}
