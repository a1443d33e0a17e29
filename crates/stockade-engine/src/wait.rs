//! Waiting for a program: its deadlines, its streams, and what ended it.
//!
//! ```text
//! running ── its end ──▶ ended ── its output is read ──▶ done
//!    └── deadline, limit, cancel, a reader that left ──▶ killed ── collect 100 ms ──▶ done
//! ```
//! The end is what counts: a program that ended in time has, however long its output is on the way.

use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use stockade_policy::Limit;
use stockade_provider::{Error, ErrorKind, ProcessEnd, Running, Sandbox};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};
use tokio::time::{Sleep, sleep, timeout};

use crate::OutputStream;
use crate::output::Output;

/// How long what is already printed is collected after a kill.
const COLLECT: Duration = Duration::from_millis(100);

/// How long a program has to end by itself after whoever read its output went away.
const GRACE: Duration = Duration::from_secs(1);

/// How long a stream may say nothing after everything that could write to it is gone.
const SILENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether output still comes after the end.
const MOST_LOOKS: u32 = 10;

/// Why the engine ended a program.
pub(crate) enum Stop {
    Cancelled,
    TimedOut,
    Exceeded(Limit),
    /// Whoever read the output went away, and the program did not end by that.
    ReaderLeft,
    /// What it printed could not be passed on.
    Unwritable(OutputStream, io::Error),
}

/// How waiting for a program came to its end: it ended, or was stopped, or was stopped while the
/// output of its end was on the way.
pub(crate) struct Waited {
    pub(crate) end: Option<Result<ProcessEnd, Error>>,
    pub(crate) stop: Option<Stop>,
    /// When it ended or was stopped.
    pub(crate) at: Instant,
    /// Whether somebody who read its output went away.
    pub(crate) is_reader_left: bool,
    /// Whether all output is passed on.
    pub(crate) is_passed: bool,
}

/// What can end a program from outside.
pub(crate) struct Deadlines<'d, C, E> {
    pub(crate) cancel: Pin<&'d mut C>,
    pub(crate) lifetime: Pin<&'d mut Sleep>,
    pub(crate) exceeded: E,
    pub(crate) timeout: Duration,
}

/// A failure to pass output on.
pub(crate) type Unwritable = (OutputStream, io::Error);

/// Waits until the program has ended and its output is read, or until it must be ended. `passing`
/// is passing on what `output` reads; it may have more to do afterwards.
pub(crate) async fn wait(
    running: Running,
    sandbox: &dyn Sandbox,
    output: &Output,
    mut passing: Pin<&mut impl Future<Output = Result<(), Unwritable>>>,
    input: Option<Box<dyn AsyncRead + Send + Unpin>>,
    deadlines: Deadlines<'_, impl Future<Output = ()>, impl Future<Output = Limit>>,
) -> Waited {
    let Running { stdin, stdout, stderr, mut end, .. } = running;
    let Deadlines { mut cancel, mut lifetime, exceeded, timeout: limit } = deadlines;
    let mut reading = pin!(async {
        tokio::join!(
            output.read(OutputStream::Stdout, stdout),
            output.read(OutputStream::Stderr, stderr)
        )
    });
    let mut feed = pin!(feed(input, stdin));
    let mut deadline = pin!(sleep(limit));
    let mut grace = pin!(sleep(GRACE));
    let mut silence = pin!(silence(output));
    let mut exceeded = pin!(exceeded);
    let mut ended = None;
    let mut at = Instant::now();
    let (mut is_fed, mut is_read, mut is_passed, mut is_reader_left) = (false, false, false, false);
    // The end comes first: what ended by itself was not stopped. The output comes after every
    // deadline: it can always be ready.
    let stop = loop {
        tokio::select! {
            biased;
            // A wall keeps the deadlines too, where this process was stopped meanwhile.
            result = &mut end, if ended.is_none() => {
                if is_lost(&result) && is_over(&deadline) {
                    break Stop::TimedOut;
                }
                if is_lost(&result) && is_over(&lifetime) {
                    break Stop::Exceeded(Limit::Lifetime);
                }
                (ended, at) = (Some(result), Instant::now());
                output.end();
            }
            () = &mut cancel => break Stop::Cancelled,
            () = &mut deadline, if ended.is_none() => break Stop::TimedOut,
            () = &mut lifetime, if ended.is_none() => break Stop::Exceeded(Limit::Lifetime),
            limit = &mut exceeded, if ended.is_none() => break Stop::Exceeded(limit),
            () = &mut grace, if is_reader_left && ended.is_none() => break Stop::ReaderLeft,
            () = output.reader_left(), if !is_reader_left => {
                is_reader_left = true;
                grace.as_mut().reset(tokio::time::Instant::now() + GRACE);
            }
            result = &mut passing, if !is_passed => match result {
                Ok(()) => is_passed = true,
                Err((stream, error)) => break Stop::Unwritable(stream, error),
            },
            _ = &mut reading, if !is_read => is_read = true,
            () = &mut silence, if ended.is_some() => is_read = true,
            () = &mut feed, if !is_fed => is_fed = true,
        }
        if is_read && ended.is_some() {
            output.close();
            return Waited { end: ended, stop: None, at, is_reader_left, is_passed };
        }
    };
    sandbox.kill().await;
    if ended.is_none() {
        at = Instant::now();
        if !matches!(stop, Stop::Unwritable(..)) {
            // The kill is sent: what comes now was printed before, and whatever does not come in
            // time is not waited for.
            output.end();
            let rest = async {
                if !is_read {
                    reading.await;
                }
            };
            let passed = async {
                if !is_passed {
                    let _ = passing.await;
                }
            };
            let _ = timeout(COLLECT, async { tokio::join!(rest, passed) }).await;
        }
    }
    output.close();
    Waited { end: ended, stop: Some(stop), at, is_reader_left, is_passed }
}

fn is_lost(end: &Result<ProcessEnd, Error>) -> bool {
    match end {
        Ok(end) => matches!(end, ProcessEnd::SandboxEnded { .. }),
        Err(error) => error.kind() == ErrorKind::Lost,
    }
}

fn is_over(clock: &Sleep) -> bool {
    clock.deadline() <= tokio::time::Instant::now()
}

/// Passes the caller's input on. Whatever goes wrong, the program sees the end of its input.
async fn feed(
    source: Option<Box<dyn AsyncRead + Send + Unpin>>,
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
) {
    if let Some(mut source) = source {
        let _ = copy(&mut source, &mut stdin).await;
    }
    let _ = stdin.shutdown().await;
}

/// Resolves when no more output comes although nobody has to be waited for.
///
/// What a program has written is there when its end is told, so what still comes after many looks is
/// not its output any more.
async fn silence(output: &Output) {
    for _ in 0..MOST_LOOKS {
        let before = output.bytes_seen();
        sleep(SILENCE).await;
        if output.bytes_seen() == before {
            return;
        }
    }
}
