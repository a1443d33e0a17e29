//! The connection under a link, and the streams on it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::io::{AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use futures_util::task::AtomicWaker;
use serde::Serialize;
use stockade_provider::Gateway;
use stockade_wire::{FrameError, Heartbeat, HelloReply, Nonce, Role, StreamHeader, encode};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use yamux::{Config, Connection, Mode, Stream};

use super::LinkError;
use super::control::{Outbox, write_messages};
use super::conversation::Conversation;
use super::gateway_streams::GatewayStreams;
use super::heartbeat::beat;
use super::ledger::{Counted, GuestStreams, Ledger};
use super::sieve::{ByteStream, Sieve};
use super::socket::SplicePipes;

/// The number of streams of one execution: input, output, error and code.
const STREAMS_OF_EXECUTION: usize = 4;
/// The maximum number of concurrent operations on files, each with one stream.
pub(super) const MAX_FILE_OPERATIONS: usize = 64;
/// The maximum number of concurrent connections to servers inside, each with one stream.
pub(super) const MAX_PORT_CONNECTIONS: usize = 256;
/// How many streams the guest may have over the gateway's limit: opened and not yet reset, or ended
/// and not yet removed. One more closes the link.
const MAX_PASSING: usize = 4096;
/// Upper bounds for the streams of the guest and of the host.
const MOST_OF_GUEST: usize = 1 << 16;
const MOST_OF_HOST: usize = 1 << 16;
/// How many bytes the guest may send on one stream before any is read.
const WINDOW_BYTES: usize = 256 << 10;
/// By how much the windows of busy streams may grow in total.
const WINDOW_GROWTH_BYTES: usize = 8 << 20;
/// The maximum size of a frame.
const SEND_BYTES: usize = 512 << 10;

/// The connection to one guest. Dropping it closes the connection.
pub(super) struct Streams {
    shared: Arc<Shared>,
    gate: Option<GatewayStreams>,
    driver: Option<AbortHandle>,
}

pub(super) struct Shared {
    connection: Mutex<Option<Connection<Sieve>>>,
    /// Wakes the task that drives the connection: a new stream does not do so by itself.
    driver: AtomicWaker,
    ledger: Arc<Ledger>,
    /// The maximum number of streams that the host opens.
    most: usize,
}

/// The other work of the task that drives the connection.
pub(super) struct Driven {
    pub(super) conversation: Arc<Conversation>,
    pub(super) reader: ReadHalf<Counted>,
    pub(super) writer: WriteHalf<Counted>,
    pub(super) messages: UnboundedReceiver<Vec<u8>>,
    pub(super) outbox: Outbox,
    pub(super) nonce: Nonce,
    pub(super) greeted: watch::Sender<Option<HelloReply>>,
    pub(super) heartbeat: Option<Heartbeat>,
}

impl Streams {
    /// Connects to a guest over any byte stream, for at most `executions` concurrent executions.
    /// `pipes` sends splice pipes, if the stream can.
    pub(super) fn open(
        stream: Box<dyn ByteStream>,
        pipes: Option<SplicePipes>,
        gateway: Option<Arc<dyn Gateway>>,
        executions: usize,
    ) -> Streams {
        // The control stream, and room for ended executions whose output is unread.
        let own = executions.saturating_mul(2 * STREAMS_OF_EXECUTION).min(MOST_OF_HOST);
        let own = own + MAX_FILE_OPERATIONS + MAX_PORT_CONNECTIONS + 1;
        let (guest_streams, most) = match &gateway {
            Some(gateway) => {
                let guests = gateway.most_streams().saturating_add(MAX_PASSING).min(MOST_OF_GUEST);
                (GuestStreams::Allowed, own + guests)
            }
            None => (GuestStreams::Refused, own),
        };
        // A dropped stream counts until the connection is polled again.
        let most = most + own;
        let ledger = Arc::new(Ledger::new(guest_streams));
        let mut config = Config::default();
        // Each stream has its initial window; windows grow only with a gateway.
        let growth = gateway.as_ref().map_or(0, |_| WINDOW_GROWTH_BYTES);
        config
            .set_max_connection_receive_window(None)
            .set_max_num_streams(most)
            .set_max_connection_receive_window(Some(most * WINDOW_BYTES + growth))
            .set_split_send_size(SEND_BYTES);
        let sieve = Sieve::new(stream, Arc::clone(&ledger));
        let connection = Mutex::new(Some(Connection::new(sieve, config, Mode::Client)));
        let driver = AtomicWaker::new();
        let shared = Arc::new(Shared { connection, driver, ledger, most: own });
        let gate = gateway.map(|gateway| GatewayStreams::new(gateway, pipes));
        Streams { shared, gate, driver: None }
    }

    /// Fails if the streams of one more execution would exceed the limit.
    pub(super) fn check_room(&self) -> Result<(), LinkError> {
        let most = self.shared.most - MAX_FILE_OPERATIONS - MAX_PORT_CONNECTIONS;
        match self.shared.ledger.own_streams() + STREAMS_OF_EXECUTION > most {
            true => Err(LinkError::TooManyStreams { most }),
            false => Ok(()),
        }
    }

    /// Opens streams for operations on files, as long as the connection is open.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Opens the control stream, which is the first.
    pub(super) fn control(&mut self) -> Result<Counted, LinkError> {
        Ok(Ledger::reading(&self.shared.ledger, self.shared.new_stream()?))
    }

    /// Opens a stream of an execution and queues its header.
    pub(super) fn stream(&self, execution: u64, role: Role) -> Result<Counted, LinkError> {
        self.shared.stream(execution, role)
    }

    /// Starts the task that drives the connection and reads the guest's messages.
    pub(super) fn drive(&mut self, driven: Driven) {
        let Driven { conversation, reader, writer, messages, outbox, nonce, greeted, heartbeat } =
            driven;
        let shared = Arc::clone(&self.shared);
        let mut gate = self.gate.take();
        let driver = tokio::spawn(async move {
            let ended = {
                let mut write = pin!(write_messages(messages, writer).fuse());
                let mut listen = pin!(conversation.listen(reader, nonce, greeted));
                let mut beat = pin!(beat(heartbeat, &shared.ledger, outbox));
                poll_fn(|context| {
                    if let Poll::Ready(fault) = beat.as_mut().poll(context) {
                        return Poll::Ready(Err(fault));
                    }
                    // An error means that the control stream has ended, which `listen` detects.
                    let _ = write.as_mut().poll(context);
                    // The connection before `listen`, whose bytes it delivers.
                    match shared.poll(context, gate.as_mut()) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                        Poll::Pending => return listen.as_mut().poll(context),
                    }
                    // Messages that the guest sent before it closed are still to be read.
                    match listen.as_mut().poll(context) {
                        Poll::Ready(heard) => Poll::Ready(heard),
                        Poll::Pending => Poll::Ready(Ok(())),
                    }
                })
                .await
            };
            // Ends the streams of the gateway with the link.
            drop(gate);
            shared.close();
            conversation.close(ended.err());
        });
        self.driver = Some(driver.abort_handle());
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
        self.shared.close();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Shared {
    /// Opens a stream and queues its header.
    pub(super) fn stream(&self, execution: u64, role: Role) -> Result<Counted, LinkError> {
        let stream = self.new_stream()?;
        // Before the guest can send on the stream: its frames must be counted.
        let mut counted = match role {
            Role::Output | Role::Error | Role::Files => Ledger::reading(&self.ledger, stream),
            Role::Input | Role::Code => Ledger::writing(&self.ledger, stream),
            Role::Port => Ledger::port(&self.ledger, stream),
        };
        send_now(&mut counted, &StreamHeader { execution, role })?;
        Ok(counted)
    }

    /// Sets the task to abort when a stream of a connection exceeds its limit.
    pub(super) fn end_if_too_much(&self, stream: u32, served: AbortHandle) {
        self.ledger.end_if_too_much(stream, served);
    }

    fn new_stream(&self) -> Result<Stream, LinkError> {
        let mut connection = self.lock();
        let Some(connection) = connection.as_mut() else { return Err(LinkError::Closed) };
        let stream = match connection.poll_new_outbound(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(stream) => stream.map_err(|source| LinkError::Connection { source })?,
            // The guest has not acknowledged earlier streams, which it normally does at once.
            Poll::Pending => return Err(LinkError::TooManyStreams { most: self.most }),
        };
        self.driver.wake();
        Ok(stream)
    }

    fn poll(
        &self,
        context: &mut Context<'_>,
        mut gate: Option<&mut GatewayStreams>,
    ) -> Poll<Result<(), LinkError>> {
        self.driver.register(context.waker());
        let mut connection = self.lock();
        let Some(connection) = connection.as_mut() else { return Poll::Ready(Ok(())) };
        loop {
            // First: ended streams make room for others.
            if let Some(gate) = gate.as_deref_mut()
                && let Poll::Ready(fault) = gate.poll(context)
            {
                return Poll::Ready(Err(fault));
            }
            let inbound = connection.poll_next_inbound(context);
            // Checked each time: the connection does not always return the error of the sieve.
            if let Some(what) = self.ledger.breach() {
                return Poll::Ready(Err(LinkError::Breach { what }));
            }
            return match (inbound, gate.as_deref_mut()) {
                (Poll::Ready(Some(Ok(stream))), Some(gate)) => {
                    gate.admit(stream, &self.ledger);
                    continue;
                }
                (Poll::Ready(Some(Ok(_))), None) => {
                    Poll::Ready(Err(LinkError::Breach { what: "it opened a stream" }))
                }
                (Poll::Ready(Some(Err(source))), _) => match is_end(&source) {
                    true => Poll::Ready(Ok(())),
                    false => Poll::Ready(Err(LinkError::Connection { source })),
                },
                (Poll::Ready(None), _) => Poll::Ready(Ok(())),
                (Poll::Pending, _) => Poll::Pending,
            };
        }
    }

    fn close(&self) {
        self.lock().take();
        self.ledger.close();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection<Sieve>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a connection failed because the guest is gone.
fn is_end(error: &yamux::ConnectionError) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    use yamux::{ConnectionError, FrameDecodeError};
    match error {
        ConnectionError::Io(error) | ConnectionError::Decode(FrameDecodeError::Io(error)) => {
            // A killed guest stops inside a frame, or leaves unread bytes, which makes its socket
            // reset, unix(7).
            matches!(error.kind(), ConnectionReset | BrokenPipe | UnexpectedEof)
        }
        _ => false,
    }
}

/// Sends a short frame on a new stream, whose window has room for it.
pub(super) fn send_now<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), LinkError> {
    let frame = encode(message).map_err(|source| LinkError::Say { source })?;
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(stream).poll_write(&mut context, &frame) {
        Poll::Ready(Ok(written)) if written == frame.len() => Ok(()),
        Poll::Ready(Err(source)) => Err(LinkError::Say { source: FrameError::Write { source } }),
        Poll::Ready(Ok(_)) | Poll::Pending => Err(LinkError::Closed),
    }
}

/// Sends the bytes of a code file.
pub(super) async fn upload(mut stream: Counted, bytes: Vec<u8>) {
    // Fails if the guest refuses the rest or is gone; the execution's end reports that.
    if stream.write_all(&bytes).await.is_ok() {
        let _ = stream.close().await;
    }
}
