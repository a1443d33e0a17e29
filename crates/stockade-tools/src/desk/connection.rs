//! One connection of a program to the desk.
//!
//! ```text
//! reading ── a request ──▶ wait for a place ──▶ its call runs beside the others
//!    ├── a line too long ▶ answered, dropped up to its end, reading goes on
//!    ├── no request ─────▶ answered; what runs is finished, then the connection ends
//!    ├── half a line ────▶ answered; what runs is cancelled
//!    └── the end ────────▶ what runs is cancelled: nobody waits for it
//! ```

use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Limit;
use stockade_provider::Duplex;
use tokio::io::{AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::desk::account::Account;
use crate::desk::call::{Asked, LARGE, answer};
use crate::desk::request::{ENVELOPE, Refused, Request, error_line, result_line};
use crate::desk::shared::Shared;
use crate::fault::{Code, Fault};
use crate::lines::{Lines, Read};

/// What every connection may hold of a line. For more it needs one of a few places.
const SMALL: usize = 16 << 10;

/// A line that is too long is dropped up to this many bytes; then the connection ends.
const HARD_BYTES: u64 = 64 << 20;

/// Answers that wait to be written.
const WAITING: usize = 16;

/// What the record calls the tool of a request that was not read; no tool can be called so.
const UNREAD_NAME: &str = "(unread)";

/// A program that does not read its answers for so long is taken to be gone.
const UNREAD: Duration = Duration::from_secs(60);

/// Serves a connection up to its end. Dropping the future cancels its calls.
pub(super) async fn serve(shared: &Arc<Shared>, stream: Box<dyn Duplex>) {
    let (reader, writer) = tokio::io::split(stream);
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut connection =
        Connection { shared, lines: Lines::new(reader), sender, calls: JoinSet::new() };
    let read = async {
        connection.read().await;
        // Without the connection nothing is left that could send, and the writer ends.
        drop(connection);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = read => {}
        () = write(receiver, writer) => {}
    }
}

/// A line on its way to the program, with what it holds until it is written.
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

/// Whether further requests are read.
enum Next {
    Read,
    Finish,
    Stop,
}

impl Connection<'_> {
    async fn read(&mut self) {
        loop {
            // Calls that have ended are let go.
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

    /// Lets what runs be answered, as long as the program is there.
    async fn finish(&mut self) {
        let calls = &mut self.calls;
        let finished = async { while calls.join_next().await.is_some() {} };
        let gone = async {
            // What else it sends is not looked at.
            while let Ok(Some(_)) = self.lines.skip(HARD_BYTES).await {}
        };
        tokio::select! {
            () = finished => {}
            () = gone => {}
        }
    }

    /// The next line. A long one waits for a place among those that may be long at once.
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
        // A place is not kept from others by a line that does not come.
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

    /// What it means that nothing more comes.
    fn ended(&self) -> Line {
        if self.lines.is_in_line() { Line::Half } else { Line::End }
    }

    /// Takes one request: answers it, or lets its call run.
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
                let Some(held) = self.place_of_listing(held).await else { return Next::Stop };
                let listing = self.shared.listing.as_bytes();
                self.send(result_line(&id, listing), (None, Some(held))).await
            }
            Ok(Request::Call { id, tool, arguments }) => {
                let account = Account::new(self.shared, &tool, started);
                let asked = Asked { id, tool, arguments, line_bytes, deadline, account };
                self.call(asked, held).await
            }
            Err(refused) => self.refuse(refused, started).await,
        }
    }

    /// A place for a listing: what nobody reads is kept for few at once. A request that was long
    /// has one already, and must not wait for a second: all that have one could wait for each
    /// other. None where nobody waits for the listing any more.
    async fn place_of_listing(
        &mut self,
        held: Option<OwnedSemaphorePermit>,
    ) -> Option<OwnedSemaphorePermit> {
        if held.is_some() {
            return held;
        }
        let place = Arc::clone(&self.shared.large).acquire_owned();
        tokio::select! {
            biased;
            place = place => place.ok(),
            () = self.lines.ended() => None,
        }
    }

    /// Lets a call run once there is a place for it. Nothing is read meanwhile, so that a program
    /// that asks too much waits.
    async fn call(&mut self, asked: Asked, held: Option<OwnedSemaphorePermit>) -> Next {
        let place = Arc::clone(&self.shared.places).acquire_owned();
        let place = tokio::select! {
            biased;
            place = timeout_at(asked.deadline, place) => place,
            // Nobody waits for it any more.
            () = self.lines.ended() => return Next::Stop,
        };
        let Ok(Ok(place)) = place else {
            let Asked { id, mut account, .. } = asked;
            account.refused("a call that gets no turn is not judged");
            let message = "too many other calls were running all the time; call later, or raise \
                           max_concurrent_tool_calls in the policy";
            self.shared.hit(Limit::ToolsAtOnce);
            let fault = Fault::new(Code::TimedOut, message);
            if !account.finish(Err(fault.code)) {
                return Next::Stop;
            }
            return self.send(error_line(&id, &fault), (None, held)).await;
        };
        let (shared, sender) = (Arc::clone(self.shared), self.sender.clone());
        self.calls.spawn(async move {
            if let Some(line) = answer(shared, asked).await {
                // Fails where nobody is left to read it.
                let _ = sender.send(Answer { line, _held: (Some(place), held) }).await;
            }
        });
        Next::Read
    }

    /// Answers what was not taken.
    async fn refuse(&mut self, refused: Refused, started: Instant) -> Next {
        let Refused { id, fault } = refused;
        let mut account = Account::new(self.shared, UNREAD_NAME, started);
        let next = match fault.code {
            Code::TooLarge => {
                let why = Refused::larger(self.shared.limits.bounds);
                account.denied(&self.shared.beyond(Limit::ToolBytes, "a call", why));
                Next::Read
            }
            Code::TooDeep => {
                let why = Refused::deeper(self.shared.limits.bounds);
                account.denied(&self.shared.beyond(Limit::ToolDepth, "a call", why));
                Next::Read
            }
            _ => {
                account.refused("a request that is not understood is refused");
                Next::Finish
            }
        };
        if !account.finish(Err(fault.code)) {
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

/// What came on a connection.
enum Line {
    Whole(Vec<u8>, Option<OwnedSemaphorePermit>),
    /// Its beginning; the rest was dropped.
    TooLong(Vec<u8>),
    /// The program says no more, and its last line has no end.
    Half,
    End,
}
