//! The host's side of one interpreter: the task that reads all that it sends.
//!
//! All of it is hostile. Between calls the task goes on reading, so that a thread or a server of
//! the context never waits for a reader, and keeps a little of it for the next call.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_contexts::{
    CellError, Item, MAX_MESSAGE_BYTES, Message, Pieces, Token, call_frame, message,
};
use stockade_provider::{Error, ExecutionControl, ProcessEnd};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::{ContextEvent, INTERRUPT_GRACE};
use crate::{OutputStream, StreamOutput};

/// The size of one read.
const CHUNK_BYTES: usize = 32 << 10;

/// How much output between two calls is kept for the next.
const MOST_BETWEEN: usize = 64 << 10;

/// In how many pieces it is kept: a piece is what came on one stream before the other.
const MOST_PIECES: usize = 1024;

/// How long the rest of the output may take after the interpreter has ended, and the end of one
/// stream after that of the other.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// How many bytes of results a call may show for each byte of output that it may write: a picture
/// is larger than a line of text.
const RESULTS_PER_OUTPUT: u64 = 16;

const SIGINT: i32 = 2;

/// A call, as the task receives it.
pub(super) struct Job {
    pub(super) code: String,
    pub(super) environment: std::collections::BTreeMap<String, String>,
    /// How many bytes of output are kept.
    pub(super) most_output: u64,
    pub(super) events: mpsc::Sender<ContextEvent>,
    /// Becomes true when no reader of events is waited for any longer.
    pub(super) is_abandoned: watch::Receiver<bool>,
    pub(super) reply: oneshot::Sender<Done>,
}

/// How a call ended, according to the interpreter.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// How many calls it has executed; `None` if it has ended.
    pub(super) count: Option<u64>,
    pub(super) error: Option<CellError>,
    pub(super) stdout: StreamOutput,
    pub(super) stderr: StreamOutput,
    pub(super) dropped_results: u64,
}

/// How an interpreter ended.
pub(super) struct Ended {
    pub(super) end: Result<ProcessEnd, Error>,
    /// What it did, if it was ended because of that.
    pub(super) breach: Option<&'static str>,
}

/// One output stream.
struct Source {
    bytes: Box<dyn AsyncRead + Send + Unpin>,
    pieces: Pieces,
    is_over: bool,
}

impl Source {
    fn new(bytes: Box<dyn AsyncRead + Send + Unpin>, token: Token) -> Source {
        Source { bytes, pieces: Pieces::new(token), is_over: false }
    }

    /// Receives more; never resolves after the end.
    async fn fill(&mut self, buffer: &mut [u8]) {
        if self.is_over {
            std::future::pending::<()>().await;
        }
        match self.bytes.read(buffer).await {
            Ok(read @ 1..) => self.pieces.push(&buffer[..read]),
            // A broken stream ends here; the end of the interpreter explains it.
            Ok(0) | Err(_) => {
                self.is_over = true;
                self.pieces.end();
            }
        }
    }
}

/// Both streams and the end of an interpreter.
pub(super) struct Inside {
    stdout: Source,
    stderr: Source,
    buffers: (Vec<u8>, Vec<u8>),
    end: BoxFuture<'static, Result<ProcessEnd, Error>>,
    ended: Option<Result<ProcessEnd, Error>>,
    control: Arc<dyn ExecutionControl>,
    /// Whether SIGINT interrupts a call.
    interrupts: bool,
    between: Between,
}

/// Output between two calls.
#[derive(Default)]
struct Between {
    kept: VecDeque<(OutputStream, Vec<u8>)>,
    kept_bytes: usize,
    dropped_bytes: u64,
}

/// What comes next from an interpreter.
enum Next {
    Item(OutputStream, Item),
    Ended,
}

impl Inside {
    pub(super) fn new(
        stdout: Box<dyn AsyncRead + Send + Unpin>,
        stderr: Box<dyn AsyncRead + Send + Unpin>,
        end: BoxFuture<'static, Result<ProcessEnd, Error>>,
        (control, interrupts): (Arc<dyn ExecutionControl>, bool),
        token: &Token,
    ) -> Inside {
        Inside {
            stdout: Source::new(stdout, token.clone()),
            stderr: Source::new(stderr, token.clone()),
            buffers: (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]),
            end,
            ended: None,
            control,
            interrupts,
            between: Between::default(),
        }
    }

    /// Serves calls until the interpreter has ended. `counted` is called after each.
    pub(super) async fn serve(
        mut self,
        mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
        mut jobs: mpsc::Receiver<Job>,
        counted: impl Fn(u64),
    ) -> Ended {
        let mut call = 0;
        let mut breach = None;
        loop {
            let job = tokio::select! {
                biased;
                job = jobs.recv() => match job {
                    Some(job) => job,
                    // The context is removed.
                    None => {
                        // Fails if it has ended.
                        let _ = self.control.kill().await;
                        break;
                    }
                },
                next = self.next() => match next {
                    Next::Item(stream, Item::Output(bytes)) => {
                        self.between.add(stream, bytes);
                        continue;
                    }
                    // Nothing waits for a value that a thread shows between calls.
                    Next::Item(..) => continue,
                    Next::Ended => break,
                },
            };
            call += 1;
            let Job { code, environment, most_output, events, is_abandoned, mut reply } = job;
            let frame = call_frame(&stockade_contexts::Call {
                call,
                code: &code,
                environment: &environment,
            });
            drop(code);
            let mut running = Running {
                call,
                events,
                is_abandoned,
                left: most_output,
                results_left: most_output.saturating_mul(RESULTS_PER_OUTPUT),
                done: Done::default(),
            };
            let outcome = self.call(&mut running, &mut stdin, &frame, &mut reply).await;
            if let Some(count) = running.done.count {
                counted(count);
            }
            // Fails if the caller has left.
            let _ = reply.send(running.done);
            match outcome {
                Ok(()) => {}
                Err(Stopped::Ended) => break,
                Err(Stopped::Breach(what)) => {
                    breach = Some(what);
                    let _ = self.control.kill().await;
                    break;
                }
            }
        }
        drop(stdin);
        let end = match self.ended.take() {
            Some(end) => end,
            None => self.end.await,
        };
        Ended { end, breach }
    }

    /// Sends a call and receives all that belongs to it.
    async fn call(
        &mut self,
        running: &mut Running,
        stdin: &mut (impl AsyncWrite + Unpin),
        frame: &[u8],
        reply: &mut oneshot::Sender<Done>,
    ) -> Result<(), Stopped> {
        for (stream, bytes) in std::mem::take(&mut self.between.kept) {
            running.output(stream, bytes).await;
        }
        running.done.stdout.dropped_bytes += self.between.dropped_bytes;
        self.between = Between::default();
        let control = Arc::clone(&self.control);
        let mut sending = pin!(async {
            // Fails if the interpreter has ended, which its streams report too.
            let _ = stdin.write_all(frame).await;
            let _ = stdin.flush().await;
        });
        let (mut is_sent, mut is_left) = (false, false);
        let mut last = pin!(sleep(Duration::MAX / 4));
        let (mut of_stdout, mut of_stderr) = (None, false);
        while of_stdout.is_none() || !of_stderr {
            let next = tokio::select! {
                next = self.next() => next,
                () = &mut sending, if !is_sent => {
                    is_sent = true;
                    continue;
                }
                () = reply.closed(), if !is_left => {
                    // The caller was dropped: nothing else will stop the call.
                    is_left = true;
                    if !self.interrupts {
                        return Err(Stopped::Breach("it lost the caller of a call"));
                    }
                    let _ = control.signal(SIGINT).await;
                    last.as_mut().reset(tokio::time::Instant::now() + INTERRUPT_GRACE);
                    continue;
                }
                () = &mut last => match of_stdout {
                    // The code has closed the other stream.
                    Some(_) => break,
                    None => return Err(Stopped::Breach("it ignored an interrupt")),
                },
            };
            let (stream, item) = match next {
                Next::Ended => return Err(Stopped::Ended),
                Next::Item(stream, item) => (stream, item),
            };
            match running.item(stream, item).await? {
                Some(_) if stream == OutputStream::Stderr => of_stderr = true,
                Some(count) => {
                    of_stdout = Some(count);
                    last.as_mut().reset(tokio::time::Instant::now() + LAST_BYTES);
                }
                None => {}
            }
        }
        running.done.count = of_stdout;
        Ok(())
    }

    async fn next(&mut self) -> Next {
        loop {
            if let Some(item) = self.stdout.pieces.next_item() {
                return Next::Item(OutputStream::Stdout, item);
            }
            if let Some(item) = self.stderr.pieces.next_item() {
                return Next::Item(OutputStream::Stderr, item);
            }
            if self.ended.is_some() && self.stdout.is_over && self.stderr.is_over {
                return Next::Ended;
            }
            let has_ended = self.ended.is_some();
            let more = async {
                tokio::select! {
                    () = self.stdout.fill(&mut self.buffers.0) => None,
                    () = self.stderr.fill(&mut self.buffers.1) => None,
                    end = &mut self.end, if !has_ended => Some(end),
                }
            };
            let more = match has_ended {
                false => more.await,
                true => match timeout(LAST_BYTES, more).await {
                    Ok(more) => more,
                    Err(_) => return Next::Ended,
                },
            };
            if let Some(end) = more {
                self.ended = Some(end);
            }
        }
    }
}

impl Between {
    fn add(&mut self, stream: OutputStream, bytes: Vec<u8>) {
        if self.kept_bytes + bytes.len() > MOST_BETWEEN {
            self.dropped_bytes += bytes.len() as u64;
            return;
        }
        self.kept_bytes += bytes.len();
        // Many short pieces stay within the bound too.
        let is_full = self.kept.len() >= MOST_PIECES;
        match self.kept.back_mut() {
            Some((last, kept)) if *last == stream => kept.extend(bytes),
            _ if is_full => self.dropped_bytes += bytes.len() as u64,
            _ => self.kept.push_back((stream, bytes)),
        }
    }
}

/// Why a call ended without an answer.
enum Stopped {
    Ended,
    Breach(&'static str),
}

/// A call that runs.
struct Running {
    call: u64,
    events: mpsc::Sender<ContextEvent>,
    is_abandoned: watch::Receiver<bool>,
    /// How many more bytes of output are kept, and of results.
    left: u64,
    results_left: u64,
    done: Done,
}

impl Running {
    /// Receives one item; returns the count of calls if the stream has no more of this call.
    async fn item(&mut self, stream: OutputStream, item: Item) -> Result<Option<u64>, Stopped> {
        let bytes = match item {
            Item::Output(bytes) => {
                self.output(stream, bytes).await;
                return Ok(None);
            }
            Item::TooLong => {
                self.done.dropped_results += 1;
                return Ok(None);
            }
            Item::Message(bytes) => bytes,
        };
        debug_assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        let message =
            message(&bytes).map_err(|_| Stopped::Breach("it sent a malformed message"))?;
        match message {
            Message::Done { call, count } if call == self.call => return Ok(Some(count)),
            Message::Error { call, error } if call == self.call => self.done.error = Some(error),
            Message::Result { result, .. } if stream == OutputStream::Stdout => {
                match self.results_left.checked_sub(bytes.len() as u64) {
                    Some(left) => {
                        self.results_left = left;
                        self.send(ContextEvent::Result(result)).await;
                    }
                    None => self.done.dropped_results += 1,
                }
            }
            // Of an earlier call, from a thread.
            _ => {}
        }
        Ok(None)
    }

    async fn output(&mut self, stream: OutputStream, mut bytes: Vec<u8>) {
        let all = bytes.len() as u64;
        let kept = self.left.min(all);
        self.left -= kept;
        let counted = match stream {
            OutputStream::Stdout => &mut self.done.stdout,
            OutputStream::Stderr => &mut self.done.stderr,
        };
        counted.kept_bytes += kept;
        counted.dropped_bytes += all - kept;
        if kept > 0 {
            bytes.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
            self.send(ContextEvent::Output(stream, bytes)).await;
        }
    }

    /// A slow reader causes backpressure, until it is not waited for any longer.
    async fn send(&mut self, event: ContextEvent) {
        tokio::select! {
            biased;
            // Fails if the caller was dropped.
            _ = self.is_abandoned.wait_for(|is_abandoned| *is_abandoned) => {}
            // Fails if no reader is left.
            _ = self.events.send(event) => {}
        }
    }
}
