//! Follows a program of a session: its output, our input, signals, and its end.
//!
//! ```text
//! our input, resizes ──▶ frames ──▶ supervisor
//! our output ◀── frames ◀── supervisor ◀── the program
//! interrupted ── our end is closed for writing ──▶ the supervisor cancels the program
//! ```

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;

use rustix::net::Shutdown;
use serde_json::{Value, json};
use stockade_api::{
    ContextResult, ControlMessage, Frame, FrameError, Reply, ResultParts, read_frame, write_frame,
};
use stockade_engine::Outcome;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::results::{self, ResultFiles};
use super::{client, terminal};
use crate::Problem;
use crate::render::live::{self, Escapes, Live};
use crate::run::input::Input;

/// Our side of a program's streams.
pub(super) struct Ends {
    /// What is passed on as its input, if anything.
    pub(super) input: Option<Input>,
    /// Where its output goes.
    pub(super) sink: Sink,
    /// Whether a resize of our terminal resizes its terminal.
    pub(super) resizes: bool,
    /// The signals to us that are passed to the program.
    pub(super) proxied: &'static [i32],
    /// Where values go that a call of a context shows, in addition to their text.
    pub(super) results: Option<ResultFiles>,
}

/// Where a program's output goes.
pub(super) enum Sink {
    /// To our standard output and standard error.
    Live(Box<Live>, Box<Live>),
    /// Into the report.
    Kept {
        /// Standard output.
        stdout: Vec<u8>,
        /// Standard error.
        stderr: Vec<u8>,
    },
}

impl Sink {
    pub(super) fn live(escapes: Escapes) -> Sink {
        Sink::Live(Box::new(live::stdout(escapes)), Box::new(live::stderr(escapes)))
    }

    pub(super) fn kept() -> Sink {
        Sink::Kept { stdout: Vec::new(), stderr: Vec::new() }
    }

    /// Writes output, or drops it once `discard` is true: a blocked reader must not delay the end.
    pub(super) async fn write(
        &mut self,
        is_error: bool,
        bytes: &[u8],
        discard: &mut watch::Receiver<bool>,
    ) -> io::Result<()> {
        let live = match self {
            Sink::Live(stdout, stderr) => {
                if is_error {
                    stderr
                } else {
                    stdout
                }
            }
            Sink::Kept { stdout, stderr } => {
                if is_error { stderr } else { stdout }.extend_from_slice(bytes);
                return Ok(());
            }
        };
        tokio::select! {
            biased;
            _ = discard.wait_for(|discard| *discard) => Ok(()),
            written = live.write_all(bytes) => written,
        }
    }

    /// Waits until everything is written, unless `discard` is true.
    pub(super) async fn finish(&mut self, discard: &mut watch::Receiver<bool>) -> io::Result<()> {
        let Sink::Live(stdout, stderr) = self else { return Ok(()) };
        let written = async {
            close(stdout).await?;
            close(stderr).await
        };
        tokio::select! {
            biased;
            _ = discard.wait_for(|discard| *discard) => Ok(()),
            written = written => written,
        }
    }
}

/// A reader that has left, as `head` does, is not an error.
async fn close(live: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    match live.shutdown().await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        closed => closed,
    }
}

/// How a program ended.
pub(super) struct Ended {
    /// The exit code of this command.
    pub(super) code: u8,
    /// The report of the program, as `stockade run --json` prints it.
    pub(super) report: Value,
    pub(super) sink: Sink,
    /// What a call of a context showed.
    pub(super) results: Vec<ContextResult>,
}

impl Ended {
    /// The end of a program that never ran.
    pub(super) fn unstarted(code: u8, report: Value) -> Ended {
        Ended { code, report, sink: Sink::kept(), results: Vec::new() }
    }
}

/// Receives the reply to a request for a program: its number, or how it ended without running.
pub(super) enum Accepted {
    Started(u64),
    Ended(u8, Value),
}

pub(super) async fn accepted(stream: &mut UnixStream, name: &str) -> anyhow::Result<Accepted> {
    match client::reply(stream, name).await? {
        Reply::Started { execution } => Ok(Accepted::Started(execution)),
        Reply::Ended { code, report } => Ok(Accepted::Ended(code, report)),
        _ => Err(client::confused(name).into()),
    }
}

/// Follows a program to its end. When `interrupted` resolves, the supervisor cancels it.
pub(super) async fn follow(
    stream: UnixStream,
    ends: Ends,
    interrupted: impl Future<Output = ()>,
    name: &str,
) -> anyhow::Result<Ended> {
    let Ends { input, mut sink, resizes, proxied, mut results } = ends;
    let mut shown = Vec::new();
    let cannot = |error: io::Error| {
        let message = format!("cannot follow the program: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    let socket = stream.as_fd().try_clone_to_owned().map_err(cannot)?;
    let resizes = resizes.then(|| signal(SignalKind::window_change())).transpose();
    let resizes = resizes.map_err(cannot)?;
    let proxied =
        proxied.iter().map(|number| Ok((*number, signal(SignalKind::from_raw(*number))?)));
    let proxied = proxied.collect::<io::Result<Vec<_>>>().map_err(cannot)?;
    let (reader, writer) = stream.into_split();
    let (discard, discarded) = watch::channel(false);
    let end = {
        let to = (&mut shown, results.as_mut());
        let mut receiving = std::pin::pin!(receive(reader, &mut sink, to, discarded, &socket));
        let mut sending = std::pin::pin!(send(writer, input, resizes, proxied));
        let mut interrupted = std::pin::pin!(interrupted);
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                end = &mut receiving => break end,
                never = &mut sending => match never {},
                () = &mut interrupted, if !is_interrupted => {
                    is_interrupted = true;
                    discard.send_replace(true);
                    cancel(&socket);
                }
            }
        }
    };
    match end {
        Ok((code, report)) => Ok(Ended { code, report, sink, results: shown }),
        Err(Stopped::Failed(failure)) => Err(client::failed(failure).into()),
        // The supervisor was killed, and its sandbox with it.
        Err(Stopped::Lost(FrameError::Closed | FrameError::Connection { .. })) => {
            let outcome = Outcome::EngineLost;
            let report = json!({
                "outcome": outcome.as_str(), "exit_code": null, "signal": null, "limit": null,
            });
            Ok(Ended { code: outcome.cli_code(), report, sink, results: shown })
        }
        Err(Stopped::Lost(error)) => Err(client::lost(name, &error).into()),
        Err(Stopped::Unwritten(problem)) => Err(problem.into()),
        Err(Stopped::Unwritable(error)) => {
            let message = format!("cannot pass on what the program wrote: {error}");
            Err(Problem::new(message, "check that its disk is not full").into())
        }
    }
}

/// Why the program's end did not arrive.
enum Stopped {
    Failed(stockade_api::Failure),
    Lost(FrameError),
    Unwritable(io::Error),
    /// The file of a value could not be written.
    Unwritten(Problem),
}

/// Shuts the socket down for writing, which cancels the program. The report of the program's end can
/// still be read.
fn cancel(socket: &OwnedFd) {
    // Fails if the supervisor is gone.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Receives output up to the program's end.
async fn receive(
    mut reader: OwnedReadHalf,
    sink: &mut Sink,
    (shown, mut files): (&mut Vec<ContextResult>, Option<&mut ResultFiles>),
    mut discarded: watch::Receiver<bool>,
    socket: &OwnedFd,
) -> Result<(u8, Value), Stopped> {
    let mut is_reader_left = false;
    let mut parts = ResultParts::default();
    loop {
        let (is_error, bytes) = match read_frame(&mut reader).await.map_err(Stopped::Lost)? {
            Frame::Output(bytes) => (false, bytes),
            Frame::Error(bytes) => (true, bytes),
            Frame::Result(part) => match parts.push(part).map_err(Stopped::Lost)? {
                Some(result) => {
                    let text = results::text(&result);
                    if let Some(files) = files.as_deref_mut() {
                        files.write(&result).map_err(Stopped::Unwritten)?;
                    }
                    shown.push(result);
                    match sink {
                        Sink::Live(..) => (false, text.into_bytes()),
                        Sink::Kept { .. } => continue,
                    }
                }
                None => continue,
            },
            Frame::Reply(Reply::Ended { code, report }) => {
                if !is_reader_left {
                    if let Sink::Live(..) = sink {
                        let error = results::error(&report);
                        let written = sink.write(true, error.as_bytes(), &mut discarded).await;
                        written.map_err(Stopped::Unwritable)?;
                    }
                    sink.finish(&mut discarded).await.map_err(Stopped::Unwritable)?;
                }
                return Ok((code, report));
            }
            Frame::Reply(Reply::Failed(failure)) => return Err(Stopped::Failed(failure)),
            _ => continue,
        };
        if is_reader_left {
            continue;
        }
        match sink.write(is_error, &bytes, &mut discarded).await {
            Ok(()) => {}
            // The reader of our output closed it: the program has no reader any more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                is_reader_left = true;
                cancel(socket);
            }
            Err(error) => return Err(Stopped::Unwritable(error)),
        }
    }
}

/// Sends input, resizes and signals. Never ends: the program may go on without input.
async fn send(
    mut writer: OwnedWriteHalf,
    mut input: Option<Input>,
    mut resizes: Option<Signal>,
    mut proxied: Vec<(i32, Signal)>,
) -> std::convert::Infallible {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let frame = tokio::select! {
            read = read(&mut input, &mut buffer) => match read {
                0 => {
                    input = None;
                    Frame::InputEnd
                }
                read => Frame::Input(buffer[..read].to_vec()),
            },
            () = resized(&mut resizes) => Frame::Control(ControlMessage::Resize(terminal::size())),
            signal = any(&mut proxied) => Frame::Control(ControlMessage::Signal { signal }),
        };
        if write_frame(&mut writer, &frame).await.is_err() {
            // The supervisor is gone or we have left; the other direction reports it.
            std::future::pending::<()>().await;
        }
    }
}

async fn read(input: &mut Option<Input>, buffer: &mut [u8]) -> usize {
    match input {
        // A read error ends the input.
        Some(input) => input.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn resized(resizes: &mut Option<Signal>) {
    match resizes {
        Some(resizes) => _ = resizes.recv().await,
        None => std::future::pending().await,
    }
}

/// Resolves with the number of the first signal that arrives.
async fn any(proxied: &mut [(i32, Signal)]) -> i32 {
    poll_fn(|context| {
        let mut came = proxied
            .iter_mut()
            .filter_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
        came.next().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
