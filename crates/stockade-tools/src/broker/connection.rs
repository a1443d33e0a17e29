//! One connection of a program to the tool broker.
//!
//! ```text
//! reading ── a request ──▶ wait for a permit ──▶ its call runs concurrently
//!    ├── a line too long ▶ answered, skipped, reading continues
//!    ├── malformed ──────▶ answered; running calls finish, then the connection ends
//!    ├── half a line ────▶ answered; running calls are cancelled
//!    └── the end ────────▶ running calls are cancelled
//! ```

use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Limit;
use stockade_provider::Duplex;
use tokio::io::{AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::broker::call::{LARGE, PendingCall, answer};
use crate::broker::call_record::CallRecord;
use crate::broker::request::{ENVELOPE, Refused, Request, error_line, result_line};
use crate::broker::shared::Shared;
use crate::fault::{Code, Fault};
use crate::lines::{Lines, Read};

/// How many bytes of a line each connection may buffer. Longer lines need one of a few permits.
const SMALL: usize = 16 << 10;

/// A line that is too long is discarded up to this many bytes; then the connection ends.
const HARD_BYTES: u64 = 64 << 20;

/// The most answers that wait to be written.
const WAITING: usize = 16;

/// The name that the record uses for the tool of a request that could not be parsed; no tool can
/// have it.
const UNREAD_NAME: &str = "(unread)";

/// A program that reads no answers for this long is treated as gone.
const UNREAD: Duration = Duration::from_secs(60);

/// Serves a connection until it ends. Dropping the future cancels its calls.
pub(super) async fn serve(shared: &Arc<Shared>, stream: Box<dyn Duplex>) {
    let (reader, writer) = tokio::io::split(stream);
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut connection =
        Connection { shared, lines: Lines::new(reader), sender, calls: JoinSet::new() };
    let read = async {
        connection.read().await;
        // Dropping the connection drops the last sender, and the writer ends.
        drop(connection);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = read => {}
        () = write(receiver, writer) => {}
    }
}

/// A line to write to the program, with the permit that it holds until it is written.
struct Answer {
    line: Vec<u8>,
    _held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

async fn write(mut answers: mpsc::Receiver<Answer>, mut writer: impl AsyncWrite + Unpin) {
    while let Some(answer) = answers.recv().await {
        let written = timeout(UNREAD, async {
            writer.write_all(&answer.line).await?;
            writer.flush().await
        });
        if !matches!(written.await, Ok(Ok(()))) {
            return;
        }
    }
    let _ = timeout(UNREAD, writer.shutdown()).await;
}

struct Connection<'s> {
    shared: &'s Arc<Shared>,
    lines: Lines<ReadHalf<Box<dyn Duplex>>>,
    sender: mpsc::Sender<Answer>,
    calls: JoinSet<()>,
}

/// Whether to read further requests.
enum Next {
    Read,
    Finish,
    Stop,
}

impl Connection<'_> {
    async fn read(&mut self) {
        loop {
            // Reaps calls that have ended.
            while self.calls.try_join_next().is_some() {}
            let next = match self.line().await {
                Line::Whole(line, held) => self.request(line, held).await,
                Line::TooLong(head) => {
                    let refused = Refused::too_large(&head, self.shared.limits.bounds);
                    self.refuse(refused, Instant::now()).await
                }
                Line::Half => {
                    self.refuse(Refused::half(), Instant::now()).await;
                    Next::Stop
                }
                Line::End => Next::Stop,
            };
            match next {
                Next::Read => tokio::task::coop::consume_budget().await,
                Next::Finish => break self.finish().await,
                Next::Stop => break,
            }
        }
    }

    /// Waits for the running calls to be answered while the program stays connected.
    async fn finish(&mut self) {
        let calls = &mut self.calls;
        let finished = async { while calls.join_next().await.is_some() {} };
        let gone = async {
            // Further input is discarded.
            while let Ok(Some(_)) = self.lines.skip(HARD_BYTES).await {}
        };
        tokio::select! {
            () = finished => {}
            () = gone => {}
        }
    }

    /// Reads the next line. A long one waits for a permit for long lines.
    async fn line(&mut self) -> Line {
        match self.lines.next(SMALL).await {
            Ok(Read::Line(line)) => return Line::Whole(line, None),
            Ok(Read::More) => {}
            Ok(Read::End) => return self.ended(),
            Err(_) => return Line::End,
        }
        let Ok(held) = Arc::clone(&self.shared.large).acquire_owned().await else {
            return Line::End;
        };
        let most = self.shared.limits.bounds.bytes.saturating_add(ENVELOPE).max(SMALL);
        // A connection that sends nothing must not hold a permit.
        let rest = timeout(self.shared.limits.most_time, self.lines.next(most)).await;
        match rest {
            Ok(Ok(Read::Line(line))) => Line::Whole(line, Some(held)),
            Ok(Ok(Read::More)) => {
                drop(held);
                match self.lines.skip(HARD_BYTES).await {
                    Ok(Some(ends)) => Line::TooLong(ends.head),
                    Ok(None) | Err(_) => Line::End,
                }
            }
            Ok(Ok(Read::End)) => self.ended(),
            Ok(Err(_)) | Err(_) => Line::End,
        }
    }

    /// What the end of input means.
    fn ended(&self) -> Line {
        if self.lines.is_in_line() { Line::Half } else { Line::End }
    }

    /// Handles one request: answers it, or starts its call.
    async fn request(&mut self, line: Vec<u8>, held: Option<OwnedSemaphorePermit>) -> Next {
        let started = Instant::now();
        let deadline = started + self.shared.limits.most_time;
        let (bounds, line_bytes) = (self.shared.limits.bounds, line.len());
        let request = if line_bytes >= LARGE {
            let read = self.shared.work(move || Request::read(&line, bounds)).await;
            let Ok(request) = read else { return Next::Stop };
            request
        } else {
            Request::read(&line, bounds)
        };
        match request {
            Ok(Request::List { id }) => {
                let Some(held) = self.listing_permit(held).await else { return Next::Stop };
                let listing = self.shared.listing.as_bytes();
                self.send(result_line(&id, listing), (None, Some(held))).await
            }
            Ok(Request::Call { id, tool, arguments }) => {
                let record = CallRecord::new(self.shared, &tool, started);
                let pending = PendingCall { id, tool, arguments, line_bytes, deadline, record };
                self.call(pending, held).await
            }
            Err(refused) => self.refuse(refused, started).await,
        }
    }

    /// Returns a permit for a listing, so that few unread listings are kept at once. A long request
    /// already holds a permit and must not wait for a second one: all holders could wait for each
    /// other. Returns `None` if the program no longer waits for the listing.
    async fn listing_permit(
        &mut self,
        held: Option<OwnedSemaphorePermit>,
    ) -> Option<OwnedSemaphorePermit> {
        if held.is_some() {
            return held;
        }
        let permit = Arc::clone(&self.shared.large).acquire_owned();
        tokio::select! {
            biased;
            permit = permit => permit.ok(),
            () = self.lines.ended() => None,
        }
    }

    /// Starts a call when a permit is free. No input is read in the meantime: this is the
    /// backpressure on programs that call too much.
    async fn call(&mut self, pending: PendingCall, held: Option<OwnedSemaphorePermit>) -> Next {
        let permit = Arc::clone(&self.shared.permits).acquire_owned();
        let permit = tokio::select! {
            biased;
            permit = timeout_at(pending.deadline, permit) => permit,
            // The program no longer waits for it.
            () = self.lines.ended() => return Next::Stop,
        };
        let Ok(Ok(permit)) = permit else {
            let PendingCall { id, mut record, .. } = pending;
            record.refused("a call that never gets to run is not judged");
            let message = "too many other calls were running all the time; call later, or raise \
                           max_concurrent_tool_calls in the policy";
            self.shared.hit(Limit::ToolsAtOnce);
            let fault = Fault::new(Code::TimedOut, message);
            if !record.finish(Err(fault.code)) {
                return Next::Stop;
            }
            return self.send(error_line(&id, &fault), (None, held)).await;
        };
        let (shared, sender) = (Arc::clone(self.shared), self.sender.clone());
        self.calls.spawn(async move {
            if let Some(line) = answer(shared, pending).await {
                // Fails only if the writer is gone.
                let _ = sender.send(Answer { line, _held: (Some(permit), held) }).await;
            }
        });
        Next::Read
    }

    /// Answers a refused line.
    async fn refuse(&mut self, refused: Refused, started: Instant) -> Next {
        let Refused { id, fault } = refused;
        let mut record = CallRecord::new(self.shared, UNREAD_NAME, started);
        let next = match fault.code {
            Code::TooLarge => {
                let why = Refused::larger(self.shared.limits.bounds);
                record.denied(&self.shared.beyond(Limit::ToolBytes, "a call", why));
                Next::Read
            }
            Code::TooDeep => {
                let why = Refused::deeper(self.shared.limits.bounds);
                record.denied(&self.shared.beyond(Limit::ToolDepth, "a call", why));
                Next::Read
            }
            _ => {
                record.refused("malformed requests are refused");
                Next::Finish
            }
        };
        if !record.finish(Err(fault.code)) {
            return Next::Stop;
        }
        match self.send(error_line(&id, &fault), (None, None)).await {
            Next::Read => next,
            stop => stop,
        }
    }

    async fn send(
        &mut self,
        line: Vec<u8>,
        held: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
    ) -> Next {
        match self.sender.send(Answer { line, _held: held }).await {
            Ok(()) => Next::Read,
            Err(_) => Next::Stop,
        }
    }
}

/// What arrived on a connection.
enum Line {
    Whole(Vec<u8>, Option<OwnedSemaphorePermit>),
    /// The first bytes of a line that was too long; the rest was discarded.
    TooLong(Vec<u8>),
    /// The program closed its side in the middle of a line.
    Half,
    End,
}
