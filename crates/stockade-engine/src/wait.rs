//! Waiting for a program: its deadlines, its streams, and the reason of its end.
//!
//! ```text
//! running ── its end ──▶ ended ── its output is read ──▶ done
//!    └── deadline, limit, cancel, a reader that left ──▶ killed ── collect 100 ms ──▶ done
//! ```
//! A deadline and a cancelling caller send SIGTERM first if the policy grants a grace.
//! The program's end decides: a program that ended in time did not time out, however long its
//! output takes.

use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use stockade_policy::Limit;
use stockade_provider::{Error, ErrorKind, ProcessEnd, Running, Sandbox};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};
use tokio::time::{Sleep, sleep, timeout};

use crate::OutputStream;
use crate::execute::Clocks;
use crate::output::Output;
use crate::stopping::Asked;

/// How long the engine collects already printed output after a kill.
const COLLECT: Duration = Duration::from_millis(100);

/// How long a killed program of a session may take to end before the whole sandbox is killed.
const CONFIRMED: Duration = Duration::from_millis(1500);

/// How long a program may run after its reader closed the output.
const GRACE: Duration = Duration::from_secs(1);

/// How long a stream may be silent after all its writers are gone.
const SILENCE: Duration = Duration::from_secs(1);

const SIGTERM: i32 = 15;

/// How many times the engine waits for further output after the end.
const MOST_LOOKS: u32 = 10;

/// The sandbox of a program.
pub(crate) enum Held<'s> {
    /// It ends with the program.
    Once(Box<dyn Sandbox>),
    /// It stays for other programs.
    Session(&'s dyn Sandbox),
}

impl Held<'_> {
    pub(crate) fn sandbox(&self) -> &dyn Sandbox {
        match self {
            Held::Once(sandbox) => sandbox.as_ref(),
            Held::Session(sandbox) => *sandbox,
        }
    }
}

/// Why the engine ended a program.
pub(crate) enum Stop {
    Cancelled(Asked),
    TimedOut,
    Exceeded(Limit),
    /// The reader closed the output, and the program did not end because of that.
    ReaderLeft,
    /// The output could not be written to its destination.
    Unwritable(OutputStream, io::Error),
}

/// The result of waiting: the program ended, was stopped, or was stopped while its remaining output
/// was being read.
pub(crate) struct Waited {
    pub(crate) end: Option<Result<ProcessEnd, Error>>,
    pub(crate) stop: Option<Stop>,
    /// When it ended or was stopped.
    pub(crate) at: Instant,
    /// Whether a reader closed the output.
    pub(crate) is_reader_left: bool,
    /// Whether all output is relayed.
    pub(crate) is_passed: bool,
}

/// The events that can end a program from outside.
pub(crate) struct Deadlines<'d, C, E> {
    pub(crate) cancel: Pin<&'d mut C>,
    pub(crate) lifetime: Pin<&'d mut Sleep>,
    pub(crate) exceeded: E,
    pub(crate) clocks: Clocks,
}

impl Stop {
    /// How long the program may go on after SIGTERM.
    fn grace(&self, clocks: &Clocks) -> Duration {
        match self {
            Stop::Cancelled(Asked::Caller) => clocks.cancel_grace,
            Stop::TimedOut => clocks.timeout_grace,
            _ => Duration::ZERO,
        }
    }
}

/// A failed write of output.
pub(crate) type Unwritable = (OutputStream, io::Error);

/// Waits until the program has ended and its output is read, or until it must be ended. `passing`
/// relays what `output` reads; it may continue afterwards.
pub(crate) async fn wait(
    running: Running,
    held: &Held<'_>,
    output: &Output,
    mut passing: Pin<&mut impl Future<Output = Result<(), Unwritable>>>,
    input: Option<Box<dyn AsyncRead + Send + Unpin>>,
    deadlines: Deadlines<'_, impl Future<Output = Asked>, impl Future<Output = Limit>>,
) -> Waited {
    let Running { stdin, stdout, stderr, mut end, control, .. } = running;
    let Deadlines { mut cancel, mut lifetime, exceeded, clocks } = deadlines;
    let mut reading = pin!(async {
        tokio::join!(
            output.read(OutputStream::Stdout, stdout),
            output.read(OutputStream::Stderr, stderr)
        )
    });
    let mut feed = pin!(feed(input, stdin));
    let mut deadline = pin!(sleep(clocks.timeout));
    let mut grace = pin!(sleep(GRACE));
    let mut silence = pin!(silence(output));
    let mut exceeded = pin!(exceeded);
    let mut ended = None;
    let mut at = Instant::now();
    let (mut is_fed, mut is_read, mut is_passed, mut is_reader_left) = (false, false, false, false);
    // Order matters: a program that ended was not stopped, so its end comes first. The output comes
    // after every deadline, because it can always be ready.
    let stop = loop {
        tokio::select! {
            biased;
            // The wall enforces the deadlines too, in case this process was stopped (SIGSTOP).
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
            asked = &mut cancel => break Stop::Cancelled(asked),
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
    let grace = stop.grace(&clocks);
    let (mut is_gone, is_timed_out) = (false, matches!(stop, Stop::TimedOut));
    if ended.is_none() && !grace.is_zero() && control.signal(SIGTERM).await.is_ok() {
        let mut grace = pin!(sleep(grace));
        is_gone = loop {
            tokio::select! {
                biased;
                _ = &mut end => break true,
                () = &mut grace => break false,
                // The caller asks a second time, or the record cannot be written.
                _ = &mut cancel => break false,
                () = &mut deadline, if !is_timed_out => break false,
                () = &mut lifetime => break false,
                _ = &mut exceeded => break false,
                _ = &mut passing, if !is_passed => is_passed = true,
                _ = &mut reading, if !is_read => is_read = true,
                () = &mut feed, if !is_fed => is_fed = true,
            }
        };
    }
    match held {
        Held::Once(sandbox) => sandbox.kill().await,
        Held::Session(_) if ended.is_some() => {}
        // It obeyed SIGTERM, but its descendants can remain.
        Held::Session(_) if is_gone => _ = control.kill().await,
        // The sandbox is lost if not even this ends the program.
        Held::Session(sandbox) => {
            let killed = control.kill().await.is_ok();
            if !killed || timeout(CONFIRMED, &mut end).await.is_err() {
                sandbox.kill().await;
            }
        }
    }
    if ended.is_none() {
        at = Instant::now();
        if !matches!(stop, Stop::Unwritable(..)) {
            // The kill is sent: output that comes now was printed before, and later output is not
            // awaited.
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

/// Relays the caller's input. On any error the program sees the end of its input.
async fn feed(
    source: Option<Box<dyn AsyncRead + Send + Unpin>>,
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
) {
    if let Some(mut source) = source {
        let _ = copy(&mut source, &mut stdin).await;
    }
    let _ = stdin.shutdown().await;
}

/// Resolves when no more output comes although there is no backpressure.
///
/// A program's output arrives before its end is reported, so output that still comes after many
/// waits is not from the program.
async fn silence(output: &Output) {
    for _ in 0..MOST_LOOKS {
        let before = output.bytes_seen();
        sleep(SILENCE).await;
        if output.bytes_seen() == before {
            return;
        }
    }
}
