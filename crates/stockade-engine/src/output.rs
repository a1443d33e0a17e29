//! What a program prints: read all the time, kept up to a limit over both streams together,
//! counted to the last byte.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use crate::Streams;

/// The most that is read at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// How much of a stream waits to be passed on while the program runs; then the program waits.
const WAITING_BYTES: usize = 4 << 20;

/// The same after its end: what waits and more than the pipes and streams on the way here can hold.
const REST_BYTES: usize = 8 << 20;

/// How much of the end of the errors is reported apart from what was kept.
const TAIL_BYTES: usize = 8 * 1024;

/// One of the two streams a program prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Its output.
    Stdout,
    /// Its errors.
    Stderr,
}

impl fmt::Display for OutputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutputStream::Stdout => "standard output",
            OutputStream::Stderr => "standard error",
        })
    }
}

/// What one stream carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOutput {
    /// What was kept, if it was to be.
    pub bytes: Vec<u8>,
    /// How much was kept or passed on.
    pub kept_bytes: u64,
    /// How much came after the limit was reached.
    pub dropped_bytes: u64,
}

/// Both streams of one execution.
///
/// ```text
/// source ── read, counted, kept up to the limit ──▶ waiting ── passed on ──▶ live
/// ```
/// While the program runs it waits for whoever reads too slowly, once much is waiting. After its end
/// nothing of it waits any more: all that is left is taken into memory, and whoever reads has the
/// time they need.
pub(crate) struct Output {
    /// How much may still be kept.
    left: AtomicU64,
    capture: bool,
    /// Whether everybody who could write is gone.
    is_ended: AtomicBool,
    /// Told when somebody who reads what is passed on went away.
    reader_left: Notify,
    stdout: Lane,
    stderr: Lane,
}

/// One stream.
struct Lane {
    state: Mutex<State>,
    /// Told when there may be room for more.
    room: Notify,
    /// Told when whoever it is for went away.
    left: Notify,
    /// Told when something waits to be passed on, or no more will come.
    filled: Notify,
}

/// One stream as it stands.
#[derive(Default)]
struct State {
    seen: StreamOutput,
    /// The last bytes, kept or not.
    tail: VecDeque<u8>,
    /// What is kept and not passed on yet.
    waiting: VecDeque<u8>,
    /// Whether there is somebody to pass it on to.
    is_wanted: bool,
    /// Whether no more will come.
    is_over: bool,
}

impl Output {
    pub(crate) fn new(limit: u64, streams: &Streams) -> Output {
        let lane = || Lane {
            state: Mutex::new(State { is_wanted: streams.live.is_some(), ..State::default() }),
            room: Notify::new(),
            left: Notify::new(),
            filled: Notify::new(),
        };
        Output {
            left: AtomicU64::new(limit),
            capture: streams.capture,
            is_ended: AtomicBool::new(false),
            reader_left: Notify::new(),
            stdout: lane(),
            stderr: lane(),
        }
    }

    /// Reads a stream to its end, or until whoever it is for went away; the source is dropped then,
    /// which its writer learns.
    pub(crate) async fn read(
        &self,
        stream: OutputStream,
        mut source: Box<dyn AsyncRead + Send + Unpin>,
    ) {
        let lane = self.lane(stream);
        tokio::select! {
            () = self.read_all(stream, &mut source) => {}
            () = lane.left.notified() => {}
        }
        lane.close();
    }

    /// Passes on what is kept of a stream until no more comes. A reader who goes away has seen
    /// enough, as `head` does, and is no failure.
    pub(crate) async fn pass_on(
        &self,
        stream: OutputStream,
        mut live: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> io::Result<()> {
        let lane = self.lane(stream);
        let passed = async {
            while let Some(bytes) = lane.next().await {
                live.write_all(&bytes).await?;
                lane.room.notify_one();
            }
            live.shutdown().await
        };
        match passed.await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                lane.left.notify_one();
                self.reader_left.notify_one();
                Ok(())
            }
            other => other,
        }
    }

    /// Resolves once when somebody who read went away.
    pub(crate) async fn reader_left(&self) {
        self.reader_left.notified().await;
    }

    /// Everybody who could write is gone: from now on whoever reads slowly holds up nobody.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.stdout.room.notify_one();
        self.stderr.room.notify_one();
    }

    /// Nothing more is read.
    pub(crate) fn close(&self) {
        self.stdout.close();
        self.stderr.close();
    }

    /// How many bytes came.
    pub(crate) fn bytes_seen(&self) -> u64 {
        let seen = |lane: &Lane| {
            let state = lane.lock();
            state.seen.kept_bytes + state.seen.dropped_bytes
        };
        seen(&self.stdout) + seen(&self.stderr)
    }

    /// What came so far, with the last bytes of the errors.
    pub(crate) fn take(&self) -> (StreamOutput, StreamOutput, Vec<u8>) {
        let stdout = std::mem::take(&mut *self.stdout.lock());
        let stderr = std::mem::take(&mut *self.stderr.lock());
        (stdout.seen, stderr.seen, stderr.tail.into())
    }

    async fn read_all(&self, stream: OutputStream, source: &mut (impl AsyncRead + Unpin)) {
        let lane = self.lane(stream);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            while !self.has_room(lane) {
                lane.room.notified().await;
            }
            // A stream that breaks ends here; why it broke is said by the program's end.
            let read = source.read(&mut chunk).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            self.record(stream, &chunk[..read]);
            // A stream that is always ready must not keep the deadline from being looked at.
            consume_budget().await;
        }
    }

    /// Whether more may be read.
    fn has_room(&self, lane: &Lane) -> bool {
        let most = match self.is_ended.load(Ordering::Relaxed) {
            true => REST_BYTES,
            false => WAITING_BYTES,
        };
        lane.lock().waiting.len() < most
    }

    /// Counts a chunk and keeps of its beginning what may be kept.
    fn record(&self, stream: OutputStream, chunk: &[u8]) {
        let all = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let take = |left: u64| Some(left - left.min(all));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let kept = before.unwrap_or(0).min(all);
        let kept_chunk = &chunk[..usize::try_from(kept).unwrap_or(chunk.len())];
        let lane = self.lane(stream);
        let mut state = lane.lock();
        state.seen.kept_bytes += kept;
        state.seen.dropped_bytes += all - kept;
        if self.capture {
            state.seen.bytes.extend_from_slice(kept_chunk);
        }
        if state.is_wanted && kept > 0 {
            state.waiting.extend(kept_chunk);
            lane.filled.notify_one();
        }
        if stream == OutputStream::Stderr {
            let last = &chunk[chunk.len().saturating_sub(TAIL_BYTES)..];
            let over = (state.tail.len() + last.len()).saturating_sub(TAIL_BYTES);
            state.tail.drain(..over);
            state.tail.extend(last);
        }
    }

    fn lane(&self, stream: OutputStream) -> &Lane {
        match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        }
    }
}

impl Lane {
    fn close(&self) {
        self.lock().is_over = true;
        self.filled.notify_one();
    }

    /// What is to be passed on next; `None` when there will be no more.
    async fn next(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut state = self.lock();
                let (first, _) = state.waiting.as_slices();
                let next = first[..first.len().min(CHUNK_BYTES)].to_vec();
                if !next.is_empty() {
                    state.waiting.drain(..next.len());
                    return Some(next);
                }
                if state.is_over {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
