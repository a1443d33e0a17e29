//! A stream whose remaining bytes can move to a pipe.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Opens the splice pipe of a stream. After an error there is no pipe, the stream continues as
/// before, and the caller may try again.
pub type OpenSplice = Arc<dyn Fn() -> io::Result<SplicePipe> + Send + Sync>;

/// A pipe whose bytes reach the program after all bytes written to the stream.
///
/// The next write to the stream must be empty: it carries the reading end, and if that was sent it
/// is the last write. Dropping the pipe ends its bytes; the stream then ends as usual.
pub struct SplicePipe {
    /// The writing end, non-blocking.
    pub pipe: OwnedFd,
    /// Whether the reading end was sent. If not, the stream continues as before.
    pub sent: BoxFuture<'static, bool>,
}

/// A stream with a splice pipe. A gateway that does not support splice pipes uses it as a plain
/// stream.
pub struct SpliceStream {
    stream: Box<dyn Bytes>,
    open: OpenSplice,
}

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

impl SpliceStream {
    /// A stream whose remaining bytes may pass through the pipe that `open` opens.
    pub fn new(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        open: OpenSplice,
    ) -> SpliceStream {
        SpliceStream { stream: Box::new(stream), open }
    }

    /// Returns the function that opens the splice pipe of a stream, if the stream supports one.
    pub fn opener(stream: &dyn Any) -> Option<OpenSplice> {
        stream.downcast_ref().map(|SpliceStream { open, .. }| Arc::clone(open))
    }
}

impl fmt::Debug for SpliceStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SpliceStream").finish_non_exhaustive()
    }
}

impl AsyncRead for SpliceStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for SpliceStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn stream() -> (SpliceStream, tokio::io::DuplexStream) {
        let (ours, theirs) = duplex(64);
        let none = || Err(io::ErrorKind::Unsupported.into());
        (SpliceStream::new(ours, Arc::new(none)), theirs)
    }

    #[tokio::test]
    async fn stream_with_a_splice_pipe_works_as_a_plain_stream() {
        let (mut ours, mut theirs) = stream();
        ours.write_all(b"out").await.unwrap();
        theirs.write_all(b"in").await.unwrap();
        ours.shutdown().await.unwrap();
        theirs.shutdown().await.unwrap();
        let (mut sent, mut received) = (String::new(), String::new());
        theirs.read_to_string(&mut sent).await.unwrap();
        ours.read_to_string(&mut received).await.unwrap();
        assert_eq!((sent.as_str(), received.as_str()), ("out", "in"));
    }

    #[test]
    fn splice_pipe_is_found_only_on_a_stream_that_has_one() {
        assert!(SpliceStream::opener(&stream().0).is_some());
        assert!(SpliceStream::opener(&duplex(64).0).is_none());
    }
}
