//! Connections to servers inside, each on a stream of its own.
//!
//! All bytes are hostile. A server that sends many tiny pieces to a slow reader loses its
//! connection and blocks nothing else.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_provider::{Duplex, Error, ErrorKind, Ports};
use stockade_wire::{PortReply, PortRequest, Role, read_message_within, write_message};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, copy_bidirectional, duplex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::LinkError;
use super::ledger::Counted;
use super::streams::Shared;

/// How many bytes of each direction wait between the link and the caller.
const BUFFERED: usize = 64 << 10;

/// How long the last bytes of a caller that is gone may take to reach the server.
const LINGER: Duration = Duration::from_secs(5);

/// The ports behind a link.
#[derive(Debug)]
pub(super) struct LinkPorts {
    pub(super) streams: Arc<Shared>,
    pub(super) connections: Arc<Semaphore>,
}

impl Ports for LinkPorts {
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, Error>> {
        let (streams, connections) = (Arc::clone(&self.streams), Arc::clone(&self.connections));
        Box::pin(async move {
            let permit = connections.try_acquire_owned().map_err(|_| {
                Error::new(ErrorKind::Busy, "too many connections to ports of the sandbox")
                    .with_remedy("close some of them")
            })?;
            let mut stream = streams.stream(0, Role::Port)?;
            let id = stream.id();
            let sent = write_message(&mut stream, &PortRequest { port }).await;
            sent.map_err(|source| LinkError::Say { source })?;
            let reply = read_message_within::<PortReply, _>(&mut stream, PortReply::MAX_BYTES);
            match reply.await.map_err(|source| LinkError::Hear { source })? {
                PortReply::Connected => {}
                PortReply::Failed(errno) => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(LinkError::Port { port, source }.into());
                }
            }
            let (stream, served) = connection(stream, permit);
            streams.end_if_too_much(id, served);
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

/// The caller's end of a connection, and the task that serves it.
fn connection(stream: Counted, permit: OwnedSemaphorePermit) -> (Connection, AbortHandle) {
    let (ours, mut theirs) = duplex(BUFFERED);
    let (open, dropped) = oneshot::channel();
    let served = tokio::spawn(async move {
        let mut stream = stream.compat();
        {
            let mut copying = pin!(copy_bidirectional(&mut theirs, &mut stream));
            tokio::select! {
                // Fails if one side breaks the connection; both then end.
                _ = &mut copying => {}
                // The server may not care that the caller is gone, but receives its last bytes.
                _ = dropped => {
                    let _ = timeout(LINGER, copying).await;
                }
            }
        }
        drop(permit);
    });
    (Connection { stream: ours, _open: open }, served.abort_handle())
}

/// The caller's end of a connection. Dropping it ends the connection.
struct Connection {
    stream: DuplexStream,
    /// Tells the task when this end is dropped.
    _open: oneshot::Sender<()>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
