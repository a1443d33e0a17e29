//! The output of a program: always read, kept up to one limit for both streams, and counted to the
//! last byte.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use crate::Streams;

/// The size of one read.
const CHUNK_BYTES: usize = 32 * 1024;

/// How much unread output of a stream the engine buffers while the program runs; then backpressure
/// stops the program.
const WAITING_BYTES: usize = 4 << 20;

/// The same after its end: the buffered bytes and more than the pipes and streams on the way can
/// hold.
const REST_BYTES: usize = 8 << 20;

/// How much of the end of standard error is reported separately from the kept output.
const TAIL_BYTES: usize = 8 * 1024;

/// One of the two output streams of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
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

/// The output on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOutput {
    /// The kept bytes, if the output is captured.
    pub bytes: Vec<u8>,
    /// How many bytes were kept or relayed.
    pub kept_bytes: u64,
    /// How many bytes came after the limit was reached.
    pub dropped_bytes: u64,
}

/// Both streams of one execution.
///
/// ```text
/// source ── read, counted, kept up to the limit ──▶ waiting ── relayed ──▶ live
/// ```
/// While the program runs, a slow reader causes backpressure once the buffer is full. After its end
/// the engine reads all remaining output into memory, and a reader may take any time.
pub(crate) struct Output {
    /// How many more bytes may be kept.
    left: AtomicU64,
    capture: bool,
    /// Whether all writers have exited.
    is_ended: AtomicBool,
    /// Notified when a reader of the relayed output closes its end.
    reader_left: Notify,
    stdout: Lane,
    stderr: Lane,
}

/// One stream.
struct Lane {
    state: Mutex<State>,
    /// Notified when there may be space for more.
    room: Notify,
    /// Notified when the reader closes its end.
    left: Notify,
    /// Notified when bytes are ready to relay, or no more will come.
    filled: Notify,
}

/// The state of one stream.
#[derive(Default)]
struct State {
    seen: StreamOutput,
    /// The last bytes, whether kept or not.
    tail: VecDeque<u8>,
    /// Kept bytes that are not relayed yet.
    waiting: VecDeque<u8>,
    /// Whether the stream has a reader.
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

    /// Reads a stream until it ends or its reader closes. Then drops the source, which closes the
    /// writer's pipe.
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

    /// Relays the kept bytes of a stream until no more come. A reader that closes early, as `head`
    /// does, is not an error.
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

    /// Resolves once when a reader closes its end.
    pub(crate) async fn reader_left(&self) {
        self.reader_left.notified().await;
    }

    /// All writers have exited: from now on a slow reader causes no backpressure.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.stdout.room.notify_one();
        self.stderr.room.notify_one();
    }

    /// Stops reading.
    pub(crate) fn close(&self) {
        self.stdout.close();
        self.stderr.close();
    }

    /// How many bytes were read.
    pub(crate) fn bytes_seen(&self) -> u64 {
        let seen = |lane: &Lane| {
            let state = lane.lock();
            state.seen.kept_bytes + state.seen.dropped_bytes
        };
        seen(&self.stdout) + seen(&self.stderr)
    }

    /// The output so far, and the last bytes of standard error.
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
            // A broken stream ends here; the program's end explains the cause.
            let read = source.read(&mut chunk).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            self.record(stream, &chunk[..read]);
            // Yields, so that a stream that is always ready does not starve the deadline.
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

    /// Counts a chunk and keeps as much of its start as the limit allows.
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

    /// The next bytes to relay; `None` when no more will come.
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
