//! Bytes of a file that arrive through a supervisor.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use stockade_provider::FileError;
use tokio::io::{AsyncRead, DuplexStream, ReadBuf};
use tokio::sync::oneshot;

/// Bytes, and at their end the error of the supervisor if there was one.
pub(super) struct Received {
    bytes: DuplexStream,
    end: Option<oneshot::Receiver<Option<FileError>>>,
}

impl Received {
    pub(super) fn new(bytes: DuplexStream, end: oneshot::Receiver<Option<FileError>>) -> Received {
        Received { bytes, end: Some(end) }
    }
}

impl AsyncRead for Received {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.bytes).poll_read(context, buffer);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if !is_end || buffer.remaining() == 0 {
            return read;
        }
        let Some(end) = self.end.as_mut() else { return read };
        match Pin::new(end).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(reported) => {
                self.end = None;
                Poll::Ready(match reported {
                    Ok(None) => Ok(()),
                    Ok(Some(error)) => Err(error.into()),
                    Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                })
            }
        }
    }
}
