//! The standard streams of a container as one byte stream, with standard error apart.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bollard::container::{AttachContainerResults, LogOutput};
use futures_core::Stream;
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// How much of the guest's standard error is kept.
const MOST_ERRORS: usize = 4096;

/// The guest's standard error, as far as it is kept.
pub(crate) type Errors = watch::Receiver<String>;

/// Reads standard output and writes standard input.
pub(crate) struct Attached {
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// A frame of standard output, and how much of it is read.
    frame: (Vec<u8>, usize),
    errors: watch::Sender<String>,
}

impl Attached {
    pub(crate) fn new(attached: AttachContainerResults) -> (Attached, Errors) {
        let AttachContainerResults { output, input } = attached;
        let (errors, read) = watch::channel(String::new());
        (Attached { output, input, frame: (Vec::new(), 0), errors }, read)
    }

    fn keep(&self, message: &[u8]) {
        self.errors.send_modify(|kept| {
            let room = MOST_ERRORS.saturating_sub(kept.len());
            kept.push_str(&String::from_utf8_lossy(&message[..message.len().min(room)]));
        });
    }
}

impl AsyncRead for Attached {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.frame.1 == self.frame.0.len() {
            match ready!(self.output.poll_next_unpin(context)) {
                Some(Ok(LogOutput::StdOut { message })) => self.frame = (message.into(), 0),
                Some(Ok(LogOutput::StdErr { message })) => self.keep(&message),
                Some(Ok(LogOutput::StdIn { .. })) => {}
                Some(Ok(LogOutput::Console { .. })) => {
                    let message = "the engine sent bytes that are not a frame";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let (frame, read) = &mut self.frame;
        let next = frame.len().min(*read + buffer.remaining());
        buffer.put_slice(&frame[*read..next]);
        *read = next;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Attached {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}
