//! Distributes the output of programs: to attached clients, and to a bounded log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_api::{Frame, LogChunk};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// How much output of all programs the log of a session keeps.
const LOG_BYTES: usize = 1 << 20;

/// The size of one read.
const CHUNK_BYTES: usize = 32 << 10;

/// What a chunk costs beyond its bytes, so that many short chunks stay within the bound too.
const CHUNK_COST: usize = 128;

/// How many frames wait for a slow client.
const WAITING: usize = 8;

/// How many frames wait for a slow reader of the log: two megabytes.
const WAITING_LOG: usize = 64;

/// One of the two output streams of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// Output of one program.
#[derive(Clone, Debug)]
struct Chunk {
    execution: u64,
    stream: Stream,
    bytes: Vec<u8>,
}

/// Which programs a client receives output of, and what happens when it is slow.
struct Subscriber {
    execution: Option<u64>,
    frames: mpsc::Sender<Frame>,
    /// An attached client applies backpressure to the program; a reader of the log loses output.
    is_attached: bool,
    /// The bytes that a slow reader of the log lost and has no notice of yet.
    lost_bytes: u64,
}

impl Subscriber {
    /// Sends output to a reader of the log. One that is too slow gets a notice where bytes are
    /// missing.
    fn offer(&mut self, chunk: &Chunk) {
        if self.lost_bytes > 0 {
            let notice = Chunk {
                execution: chunk.execution,
                stream: Stream::Error,
                bytes: format!("[{} bytes of output are missing here]\n", self.lost_bytes).into(),
            };
            match self.frames.try_send(log_frame(&notice)) {
                Ok(()) => self.lost_bytes = 0,
                Err(_) => return self.lose(chunk),
            }
        }
        if self.frames.try_send(log_frame(chunk)).is_err() {
            self.lose(chunk);
        }
    }

    fn lose(&mut self, chunk: &Chunk) {
        self.lost_bytes += chunk.bytes.len() as u64;
    }
}

/// The output of all programs of a session.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    log: VecDeque<Chunk>,
    log_bytes: usize,
    subscribers: Vec<Subscriber>,
}

impl Hub {
    /// Receives the output of one program from now on, with backpressure.
    pub(crate) fn attach(&self, execution: u64) -> mpsc::Receiver<Frame> {
        self.subscribe(Some(execution), true).0
    }

    /// The kept output, and the output from now on.
    pub(crate) fn log(&self, execution: Option<u64>) -> (mpsc::Receiver<Frame>, Vec<Frame>) {
        self.subscribe(execution, false)
    }

    fn subscribe(
        &self,
        execution: Option<u64>,
        is_attached: bool,
    ) -> (mpsc::Receiver<Frame>, Vec<Frame>) {
        let waiting = if is_attached { WAITING } else { WAITING_LOG };
        let (frames, receiver) = mpsc::channel(waiting);
        let mut shared = self.lock();
        let is_wanted = |chunk: &&Chunk| execution.is_none_or(|one| one == chunk.execution);
        let kept = shared.log.iter().filter(is_wanted).map(log_frame).collect();
        shared.subscribers.push(Subscriber { execution, frames, is_attached, lost_bytes: 0 });
        (receiver, kept)
    }

    /// Reads one stream of a program to its end.
    pub(crate) async fn pump(
        &self,
        execution: u64,
        stream: Stream,
        mut source: impl AsyncRead + Unpin,
    ) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match source.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    let bytes = buffer[..read].to_vec();
                    self.publish(Chunk { execution, stream, bytes }).await;
                }
            }
        }
    }

    /// Adds output of a program.
    pub(crate) async fn add(&self, execution: u64, stream: Stream, bytes: Vec<u8>) {
        self.publish(Chunk { execution, stream, bytes }).await;
    }

    /// Passes a frame that the log does not keep to the clients of a program, with backpressure.
    pub(crate) async fn pass(&self, execution: u64, frame: Frame) {
        let attached: Vec<_> = {
            let shared = self.lock();
            let wanted = shared.subscribers.iter().filter(|one| one.is_attached);
            let wanted = wanted.filter(|one| one.execution == Some(execution));
            wanted.map(|one| one.frames.clone()).collect()
        };
        for client in attached {
            // Fails if the client has left.
            let _ = client.send(frame.clone()).await;
        }
    }

    async fn publish(&self, chunk: Chunk) {
        let mut attached = Vec::new();
        {
            let mut shared = self.lock();
            shared.subscribers.retain(|one| !one.frames.is_closed());
            for one in &mut shared.subscribers {
                if one.execution.is_some_and(|wanted| wanted != chunk.execution) {
                    continue;
                }
                match one.is_attached {
                    true => attached.push(one.frames.clone()),
                    false => one.offer(&chunk),
                }
            }
            shared.keep(chunk.clone());
        }
        for client in attached {
            // Fails if the client has left.
            let _ = client.send(frame(&chunk)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No critical section leaves the value inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn keep(&mut self, chunk: Chunk) {
        let last = self.log.back_mut().filter(|last| last.continues_with(&chunk));
        match last {
            Some(last) => {
                self.log_bytes += chunk.bytes.len();
                last.bytes.extend_from_slice(&chunk.bytes);
            }
            None => {
                self.log_bytes += chunk.cost();
                self.log.push_back(chunk);
            }
        }
        while self.log_bytes > LOG_BYTES
            && let Some(oldest) = self.log.pop_front()
        {
            self.log_bytes -= oldest.cost();
        }
    }
}

impl Chunk {
    fn cost(&self) -> usize {
        self.bytes.len() + CHUNK_COST
    }

    /// Whether another chunk can be added to this one.
    fn continues_with(&self, next: &Chunk) -> bool {
        (self.execution, self.stream) == (next.execution, next.stream)
            && self.bytes.len() + next.bytes.len() <= CHUNK_BYTES
    }
}

fn frame(chunk: &Chunk) -> Frame {
    match chunk.stream {
        Stream::Output => Frame::Output(chunk.bytes.clone()),
        Stream::Error => Frame::Error(chunk.bytes.clone()),
    }
}

fn log_frame(chunk: &Chunk) -> Frame {
    let is_error = chunk.stream == Stream::Error;
    Frame::Log(LogChunk { execution: chunk.execution, is_error, bytes: chunk.bytes.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn attached_client_receives_every_byte_and_the_log_keeps_the_last() {
        let hub = Hub::default();
        let bytes = vec![7; 3 * LOG_BYTES];
        let mut frames = hub.attach(1);
        let received = async {
            let mut received = 0;
            while received < bytes.len() {
                let Some(Frame::Output(bytes)) = frames.recv().await else { panic!("no output") };
                received += bytes.len();
            }
        };
        tokio::join!(hub.pump(1, Stream::Output, &bytes[..]), received);
        let length = |frames: &[Frame]| -> usize {
            frames.iter().map(|it| if let Frame::Log(it) = it { it.bytes.len() } else { 0 }).sum()
        };
        let kept = length(&hub.log(Some(1)).1);
        assert!(kept <= LOG_BYTES && kept > LOG_BYTES - 2 * CHUNK_BYTES, "{kept}");
        assert_eq!(length(&hub.log(Some(2)).1), 0);
    }

    #[tokio::test]
    async fn log_names_the_program_and_the_stream_of_every_chunk() {
        let hub = Hub::default();
        let (mut followed, _) = hub.log(Some(2));
        hub.pump(1, Stream::Output, &b"one"[..]).await;
        hub.pump(2, Stream::Error, &b"two"[..]).await;
        let chunk = |execution, is_error, bytes: &[u8]| {
            Frame::Log(LogChunk { execution, is_error, bytes: bytes.to_vec() })
        };
        assert_eq!(hub.log(None).1, [chunk(1, false, b"one"), chunk(2, true, b"two")]);
        assert_eq!(followed.recv().await, Some(chunk(2, true, b"two")));
    }

    #[test]
    fn output_of_single_bytes_stays_within_the_bound_of_the_log() {
        let mut shared = Shared::default();
        let chunk = |stream| Chunk { execution: 1, stream, bytes: vec![7] };
        for _ in 0..LOG_BYTES {
            shared.keep(chunk(Stream::Output));
        }
        assert!(shared.log.len() <= LOG_BYTES / CHUNK_BYTES + 1, "{}", shared.log.len());
        // Streams that take turns cannot be joined, because their order would be lost.
        for _ in 0..LOG_BYTES / 2 {
            shared.keep(chunk(Stream::Output));
            shared.keep(chunk(Stream::Error));
        }
        assert!(shared.log.len() <= LOG_BYTES / CHUNK_COST, "{}", shared.log.len());
        let cost: usize = shared.log.iter().map(Chunk::cost).sum();
        assert_eq!((cost, cost <= LOG_BYTES), (shared.log_bytes, true));
    }

    #[tokio::test]
    async fn slow_reader_of_the_log_stops_no_program_and_gets_a_notice_of_what_it_lost() {
        let hub = Hub::default();
        let (mut unread, _) = hub.log(None);
        let sent = vec![7; (WAITING_LOG + 3) * CHUNK_BYTES];
        hub.pump(1, Stream::Error, &sent[..]).await;
        let mut received = 0;
        while let Ok(Frame::Log(chunk)) = unread.try_recv() {
            received += chunk.bytes.len();
        }
        assert!(received > 0 && received < sent.len(), "{received}");
        hub.pump(1, Stream::Output, &b"more"[..]).await;
        let Ok(Frame::Log(notice)) = unread.try_recv() else { panic!("no notice") };
        let expected = format!("[{} bytes of output are missing here]\n", sent.len() - received);
        assert_eq!(notice.bytes, expected.as_bytes());
        let Ok(Frame::Log(chunk)) = unread.try_recv() else { panic!("no output") };
        assert_eq!(chunk.bytes, b"more");
    }
}
