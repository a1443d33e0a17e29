//! A program's standard output and error: bytes wait until the reader takes them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::Mutex;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// The most bytes that wait inside of the stream.
const MAX_WAITING: usize = 64 << 10;

/// One stream. Clones write to the same pipe.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Pipe>>);

struct Pipe {
    to: DuplexStream,
    waiting: Vec<u8>,
    broken: bool,
}

impl Output {
    pub(crate) fn new(to: DuplexStream) -> Output {
        Output(Arc::new(Mutex::new(Pipe { to, waiting: Vec::new(), broken: false })))
    }

    /// Writes what a program left in the stream.
    pub(crate) async fn finish(&self) {
        self.0.lock().await.drain().await;
    }

    /// The pipe. An instance has one thread, so that nothing else holds it.
    fn pipe(&self) -> StreamResult<tokio::sync::MutexGuard<'_, Pipe>> {
        self.0.try_lock().map_err(|_| StreamError::trap("the output is used twice at once"))
    }
}

impl Pipe {
    async fn drain(&mut self) {
        if !self.waiting.is_empty() && self.to.write_all(&self.waiting).await.is_err() {
            // The reader is gone.
            self.broken = true;
        }
        self.waiting.clear();
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {
        self.0.lock().await.drain().await;
    }
}

#[async_trait]
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut pipe = self.pipe()?;
        if pipe.broken {
            return Err(StreamError::Closed);
        }
        pipe.waiting.extend_from_slice(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        match self.pipe()?.broken {
            true => Err(StreamError::Closed),
            false => Ok(()),
        }
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let pipe = self.pipe()?;
        if pipe.broken {
            return Err(StreamError::Closed);
        }
        // Nothing until the bytes before are written: a flush waits for this.
        Ok(if pipe.waiting.is_empty() { MAX_WAITING } else { 0 })
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(Unused)
    }
}

/// The interface of WASI 0.3, which the component does not use.
struct Unused;

impl AsyncWrite for Unused {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::task::Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}
