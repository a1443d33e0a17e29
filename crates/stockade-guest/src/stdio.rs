//! The standard streams of a program: pipes or a terminal.

use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;

use futures_util::future::join;
use futures_util::io::AsyncWriteExt;
use stockade_sys::Controls;
use yamux::Stream;

use crate::pump;
use crate::reactor::{Descriptor, Reactor};
use crate::terminal::Terminal;

/// The streams of an execution on the link.
pub(crate) struct Remote {
    pub(crate) stdin: Stream,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
}

/// The program's ends of its standard streams.
pub(crate) enum Theirs {
    Pipes([OwnedFd; 3]),
    Terminal(OwnedFd),
}

impl Theirs {
    pub(crate) fn streams(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            Theirs::Pipes(pipes) => pipes.each_ref().map(AsFd::as_fd),
            Theirs::Terminal(terminal) => [terminal.as_fd(); 3],
        }
    }

    pub(crate) fn controls(&self) -> Controls {
        match self {
            Theirs::Pipes(_) => Controls::Nothing,
            Theirs::Terminal(_) => Controls::Terminal,
        }
    }
}

/// The guest's ends of a program's standard streams.
pub(crate) enum Ours {
    Pipes { stdin: Descriptor, stdout: Descriptor, stderr: Descriptor },
    Terminal(Rc<Terminal>),
}

/// Opens three pipes.
///
/// Pipes and not sockets: a program may reopen `/dev/stdout`, which fails for a socket.
pub(crate) fn pipes(reactor: &Reactor) -> io::Result<(Theirs, Ours)> {
    let (their_stdin, stdin) = io::pipe()?;
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    let wrap = |pipe| Descriptor::new(pipe, reactor);
    let (stdin, stdout, stderr) = (wrap(stdin.into())?, wrap(stdout.into())?, wrap(stderr.into())?);
    let theirs = [their_stdin.into(), their_stdout.into(), their_stderr.into()];
    Ok((Theirs::Pipes(theirs), Ours::Pipes { stdin, stdout, stderr }))
}

type Carrying = Pin<Box<dyn Future<Output = ()>>>;

impl Ours {
    /// Copies bytes in both directions. The first future ends with the input, and dropping it drops
    /// input that the program did not read; the second ends with the output.
    pub(crate) fn carry(self, remote: Remote) -> (Carrying, Carrying) {
        let Remote { stdin: input, stdout: output, stderr: errors } = remote;
        match self {
            Ours::Pipes { stdin, stdout, stderr } => {
                let outputs = join(pump::output(stdout, output), pump::output(stderr, errors));
                let outputs = async {
                    outputs.await;
                };
                (Box::pin(pump::input(input, stdin)), Box::pin(outputs))
            }
            Ours::Terminal(terminal) => {
                (Box::pin(pending()), Box::pin(carry_terminal(terminal, input, output, errors)))
            }
        }
    }
}

/// Copies input and output of a terminal until no process has it open, or the host closes the
/// output. Then the terminal is closed, and the kernel sends SIGHUP to processes that still use it.
async fn carry_terminal(
    terminal: Rc<Terminal>,
    input: Stream,
    mut output: Stream,
    mut errors: Stream,
) {
    // Fails only if the stream is closed already.
    let _ = errors.close().await;
    {
        let mut input = pin!(pump::terminal_input(input, &terminal));
        let mut output = pin!(pump::terminal_output(&terminal, &mut output));
        let mut is_input_open = true;
        poll_fn(|context| {
            if is_input_open {
                is_input_open = input.as_mut().poll(context).is_pending();
            }
            output.as_mut().poll(context)
        })
        .await;
    }
    drop(terminal);
    let _ = output.close().await;
}
