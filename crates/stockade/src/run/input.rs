//! Forwards our standard input to the program.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::FileType;
use rustix::process::Signal;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// The size of one read.
const CHUNK_BYTES: usize = 16 * 1024;

/// The maximum number of queued chunks.
const CHUNKS: usize = 4;

/// A stream that a thread reads; the first poll starts the thread. The thread may block without
/// input; the process exits without joining it.
pub(crate) struct Input {
    from: Option<Box<dyn Read + Send>>,
    chunks: Option<mpsc::Receiver<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Input {
    /// Our standard input; `None` if it is `/dev/null`, which needs no thread.
    pub(crate) fn stdin() -> Option<Input> {
        let found = rustix::fs::fstat(rustix::stdio::stdin());
        let is_null = |found: rustix::fs::Stat| {
            FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
                && found.st_rdev == rustix::fs::makedev(1, 3) // null(4)
        };
        match found.is_ok_and(is_null) {
            true => None,
            false => Some(Input::new(Box::new(Stdin))),
        }
    }

    /// An input that has ended.
    pub(crate) fn empty() -> Input {
        Input::new(Box::new(io::empty()))
    }

    /// A stream that `from` reads.
    pub(crate) fn new(from: Box<dyn Read + Send>) -> Input {
        Input { from: Some(from), chunks: None, chunk: io::Cursor::default() }
    }

    fn start(&mut self) -> io::Result<()> {
        let Some(mut from) = self.from.take() else { return Ok(()) };
        let (sender, receiver) = mpsc::channel(CHUNKS);
        self.chunks = Some(receiver);
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            loop {
                match from.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // A read error ends the input.
                    Ok(0) | Err(_) => return,
                    Ok(count) => {
                        if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                            return;
                        }
                    }
                }
            }
        })?;
        Ok(())
    }
}

/// Our standard input, which does not stop this process in the background.
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A terminal stops a background process that reads it (SIGTTIN), while the program's
        // timeout runs. Ignored, the signal becomes an error that ends the input; ignored only
        // here, so that no child inherits it.
        stockade_sys::ignore_signal(Signal::TTIN)?;
        io::stdin().read(buffer)
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.start()?;
        let consumed = usize::try_from(self.chunk.position()).unwrap_or(usize::MAX);
        if consumed >= self.chunk.get_ref().len() {
            let Some(chunks) = &mut self.chunks else { return Poll::Ready(Ok(())) };
            match std::task::ready!(chunks.poll_recv(context)) {
                Some(chunk) => self.chunk = io::Cursor::new(chunk),
                None => return Poll::Ready(Ok(())),
            }
        }
        Pin::new(&mut self.chunk).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn input_is_forwarded_until_end_of_file() {
        let text: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut input = Input::new(Box::new(io::Cursor::new(text.clone())));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut seen = Vec::new();
        runtime.block_on(input.read_to_end(&mut seen)).unwrap();
        assert_eq!(seen, text);
    }
}
