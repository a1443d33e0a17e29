//! Forwards a program's output to ours while it runs.
//!
//! A separate thread writes: a reader that stops reading blocks only this thread and delays no
//! deadline.

use std::io::{self, IsTerminal, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;

use super::harmless::Harmless;
use super::lines::Lines;

/// The maximum number of bytes queued for the thread.
const QUEUE_BYTES: usize = 64 * 1024;

/// How a terminal gets escape sequences.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// As text.
    Shown,
    /// Unchanged.
    Raw,
}

/// Whether the program's last line on the terminal has no line end.
static IS_LINE_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether the next output on the terminal would continue a program's line.
pub(super) fn is_line_open() -> bool {
    IS_LINE_OPEN.load(Ordering::Relaxed)
}

fn note_end(shown: &[u8]) {
    if let Some(last) = shown.last() {
        IS_LINE_OPEN.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Our standard output, for the program's.
pub(crate) fn stdout(escapes: Escapes) -> Live {
    let harmless = escapes == Escapes::Shown && io::stdout().is_terminal();
    Live::new(Box::new(io::stdout()), harmless.then(Harmless::default))
}

/// Our standard error, for the program's.
pub(crate) fn stderr(escapes: Escapes) -> Live {
    let harmless = escapes == Escapes::Shown && io::stderr().is_terminal();
    Live::new(Box::new(io::stderr()), harmless.then(Harmless::default))
}

/// Our standard output, as JSON Lines, for one stream of the program.
pub(crate) fn lines(stream: &'static str) -> Live {
    Live::new(Box::new(Lines::new(stream)), None)
}

/// A stream that a thread writes to; the first byte starts the thread.
pub(crate) struct Live {
    shared: Arc<Shared>,
    /// The writer, until the thread takes it.
    unstarted: Option<Writer>,
}

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Whether the thread has taken bytes that it has not written yet.
    is_busy: bool,
    /// Whether more may come.
    is_closed: bool,
    /// Whether the thread has finished.
    is_done: bool,
    failed: Option<io::Error>,
    waker: Option<Waker>,
}

struct Writer {
    to: Box<dyn Write + Send>,
    harmless: Option<Harmless>,
}

impl Live {
    /// A stream that `to` writes.
    #[cfg(feature = "mcp")]
    pub(crate) fn to(to: Box<dyn Write + Send>) -> Live {
        Live::new(to, None)
    }

    fn new(to: Box<dyn Write + Send>, harmless: Option<Harmless>) -> Live {
        let shared = Shared { queue: Mutex::default(), filled: Condvar::new() };
        Live { shared: Arc::new(shared), unstarted: Some(Writer { to, harmless }) }
    }

    fn start(&mut self) -> io::Result<()> {
        let Some(writer) = self.unstarted.take() else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name("output".to_owned()).spawn(move || writer.run(&shared))?;
        Ok(())
    }
}

impl AsyncWrite for Live {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.start()?;
        let mut queue = self.shared.lock();
        queue.check()?;
        let room = QUEUE_BYTES.saturating_sub(queue.bytes.len()).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            queue.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        queue.bytes.extend_from_slice(&bytes[..room]);
        self.shared.filled.notify_one();
        Poll::Ready(Ok(room))
    }

    /// Resolves when everything is written.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = self.shared.lock();
        queue.check()?;
        let is_idle = queue.bytes.is_empty() && !queue.is_busy;
        queue.wait(is_idle, context)
    }

    /// Resolves when everything is written, including an incomplete character.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = self.shared.lock();
        queue.check()?;
        queue.is_closed = true;
        self.shared.filled.notify_one();
        let is_done = queue.is_done || self.unstarted.is_some();
        queue.wait(is_done, context)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.filled.notify_one();
    }
}

impl Queue {
    /// The thread's error, which is permanent.
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => error.kind().into(),
            }),
        }
    }

    fn wait(&mut self, is_ready: bool, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if is_ready {
            return Poll::Ready(Ok(()));
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next bytes to write; `None` when there will be no more.
    fn next(&self) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        loop {
            if !queue.bytes.is_empty() {
                queue.is_busy = true;
                return Some(std::mem::take(&mut queue.bytes));
            }
            if queue.is_closed {
                return None;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn report(&self, result: io::Result<()>, is_done: bool) {
        let mut queue = self.lock();
        queue.is_busy = false;
        queue.is_done = is_done;
        queue.failed = result.err();
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }
}

impl Writer {
    fn run(mut self, shared: &Shared) {
        while let Some(bytes) = shared.next() {
            let result = self.write(&bytes);
            let is_done = result.is_err();
            shared.report(result, is_done);
            if is_done {
                return;
            }
        }
        let rest = self.harmless.as_mut().map(Harmless::finish).unwrap_or_default();
        let result = self.to.write_all(&rest).and_then(|()| self.to.flush());
        note_end(&rest);
        // Writes what it still holds, before the stream counts as done.
        drop(self.to);
        shared.report(result, true);
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.harmless {
            Some(harmless) => {
                let shown = harmless.feed(bytes);
                self.to.write_all(&shown)?;
                note_end(&shown);
            }
            None => self.to.write_all(bytes)?,
        }
        self.to.flush()
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
