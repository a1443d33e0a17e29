//! What a program prints: read all the time, kept up to a limit over both streams together,
//! counted to the last byte.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::coop::consume_budget;

/// The most that is read at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// How much of the end of the errors is looked at for hints.
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
pub(crate) struct Output {
    /// How much may still be kept.
    left: AtomicU64,
    capture: bool,
    stdout: Mutex<Lane>,
    stderr: Mutex<Lane>,
}

/// One stream as it stands, also while its reader waits.
#[derive(Default)]
struct Lane {
    seen: StreamOutput,
    /// The last bytes, kept or not.
    tail: VecDeque<u8>,
    /// Whether its reader waits for whoever the output is passed on to.
    is_writing: bool,
}

impl Output {
    pub(crate) fn new(limit: u64, capture: bool) -> Output {
        let lane = || Mutex::new(Lane::default());
        Output { left: AtomicU64::new(limit), capture, stdout: lane(), stderr: lane() }
    }

    /// Reads a stream to its end; what may be kept goes on to `live` in the same order.
    pub(crate) async fn pump(
        &self,
        stream: OutputStream,
        mut source: Box<dyn AsyncRead + Send + Unpin>,
        live: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    ) -> io::Result<()> {
        let mut live = live;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            // A stream that breaks ends here; why it broke is said by the program's end.
            let read = source.read(&mut chunk).await.unwrap_or(0);
            if read == 0 {
                break;
            }
            let kept = self.record(stream, &chunk[..read]);
            if let Some(live) = &mut live
                && kept > 0
            {
                self.lane(stream).is_writing = true;
                live.write_all(&chunk[..kept]).await?;
                self.lane(stream).is_writing = false;
            }
            // A stream that is always ready must not keep the deadline from being looked at.
            consume_budget().await;
        }
        if let Some(live) = &mut live {
            self.lane(stream).is_writing = true;
            live.shutdown().await?;
            self.lane(stream).is_writing = false;
        }
        Ok(())
    }

    /// How many bytes came, and whether one of the readers waits for somebody else.
    pub(crate) fn progress(&self) -> (u64, bool) {
        let lanes = [OutputStream::Stdout, OutputStream::Stderr].map(|stream| {
            let lane = self.lane(stream);
            (lane.seen.kept_bytes + lane.seen.dropped_bytes, lane.is_writing)
        });
        (lanes[0].0 + lanes[1].0, lanes[0].1 || lanes[1].1)
    }

    /// What came so far, with the last bytes of the errors.
    pub(crate) fn take(&self) -> (StreamOutput, StreamOutput, Vec<u8>) {
        let stdout = std::mem::take(&mut *self.lane(OutputStream::Stdout));
        let stderr = std::mem::take(&mut *self.lane(OutputStream::Stderr));
        (stdout.seen, stderr.seen, stderr.tail.into())
    }

    /// Counts a chunk and returns how much of its beginning is kept.
    fn record(&self, stream: OutputStream, chunk: &[u8]) -> usize {
        let all = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let take = |left: u64| Some(left - left.min(all));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let kept = before.unwrap_or(0).min(all);
        let count = usize::try_from(kept).unwrap_or(chunk.len());
        let mut lane = self.lane(stream);
        lane.seen.kept_bytes += kept;
        lane.seen.dropped_bytes += all - kept;
        if self.capture {
            lane.seen.bytes.extend_from_slice(&chunk[..count]);
        }
        if stream == OutputStream::Stderr {
            let last = &chunk[chunk.len().saturating_sub(TAIL_BYTES)..];
            let over = (lane.tail.len() + last.len()).saturating_sub(TAIL_BYTES);
            lane.tail.drain(..over);
            lane.tail.extend(last);
        }
        count
    }

    fn lane(&self, stream: OutputStream) -> MutexGuard<'_, Lane> {
        let lane = match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        };
        lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use OutputStream::{Stderr, Stdout};

    #[test]
    fn both_streams_share_the_limit_and_every_byte_is_counted() {
        let output = Output::new(10, true);
        assert_eq!(output.record(Stdout, b"abcdef"), 6);
        assert_eq!(output.record(Stderr, b"ghijkl"), 4);
        assert_eq!(output.record(Stdout, b"mno"), 0);
        let (stdout, stderr, tail) = output.take();
        let stream = |bytes: &[u8], kept_bytes, dropped_bytes| StreamOutput {
            bytes: bytes.to_vec(),
            kept_bytes,
            dropped_bytes,
        };
        assert_eq!(stdout, stream(b"abcdef", 6, 3));
        assert_eq!(stderr, stream(b"ghij", 4, 2));
        assert_eq!(tail, b"ghijkl");
    }

    #[test]
    fn tail_is_the_last_of_the_errors_whatever_was_kept() {
        let output = Output::new(0, true);
        for round in 0..5_u8 {
            output.record(Stderr, &vec![b'a' + round; TAIL_BYTES / 2]);
        }
        let (_, _, tail) = output.take();
        assert_eq!(tail.len(), TAIL_BYTES);
        assert_eq!((tail[0], tail[TAIL_BYTES - 1]), (b'd', b'e'));
    }

    #[tokio::test]
    async fn only_what_is_kept_is_passed_on() {
        let output = Output::new(5, false);
        let (live, mut seen) = tokio::io::duplex(64);
        output.pump(Stdout, Box::new(&b"hello world"[..]), Some(Box::new(live))).await.unwrap();
        let mut text = String::new();
        seen.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
        let (stdout, ..) = output.take();
        assert_eq!((stdout.kept_bytes, stdout.dropped_bytes, stdout.bytes.len()), (5, 6, 0));
    }

    #[tokio::test]
    async fn reader_that_went_away_is_an_error_of_the_pump() {
        let output = Output::new(5, false);
        let (live, seen) = tokio::io::duplex(64);
        drop(seen);
        let pumped = output.pump(Stdout, Box::new(&b"hello"[..]), Some(Box::new(live))).await;
        assert_eq!(pumped.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
