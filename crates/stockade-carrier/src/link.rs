//! The host's end of the stream to a guest.
//!
//! ```text
//! open ── hello ──▶ linked ── execute ──▶ linked, one execution more ── its end ──▶ one less
//!                      ├── end of stream ──▶ closed: the sandbox has ended
//!                      ├── too many silent heartbeat intervals ──▶ closed: an error
//!                      └── a breach of the protocol ──▶ closed: an error
//! ```
//! The stream is any byte stream; a socket of this machine adds splice pipes, see `socket`. Hello,
//! request and streams of an execution are sent without waiting for replies. Everything from the
//! guest is bounded and checked; dropping the link closes the stream, at which the guest exits.
//! Streams that the guest opens are served concurrently and block nothing else.

mod control;
mod conversation;
mod files;
mod gateway_streams;
mod heartbeat;
mod ledger;
mod opened;
mod ports;
mod settings;
mod sieve;
mod socket;
mod streams;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::io::AsyncReadExt;
use stockade_provider::{
    Command, Error, ErrorKind, ExecutionId, Files, Gateway, Ports, ProcessEnd, Running,
    TerminalSize, WritablePlace,
};
use stockade_sys::random_bytes;
use stockade_wire::{
    CodeFile, Execute, Filter, FrameError, HandshakeError, HelloReply, HostMessage, Nonce, Role,
    Text, TextError, WindowSize, greet,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_util::compat::{FuturesAsyncReadCompatExt, FuturesAsyncWriteCompatExt};
use yamux::ConnectionError;

use control::Outbox;
use conversation::Conversation;
use files::LinkFiles;
use ledger::Counted;
use ports::LinkPorts;
use sieve::ByteStream;
use socket::{SocketTransport, SplicePipes};
use streams::{Driven, Streams};

pub use control::ExecutionControl;
pub use settings::{LinkSettings, Liveness};

/// Why a link could not be opened or used, or why it was closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Preparing the socket or a random number failed.
    #[error("cannot prepare the stream to the guest")]
    Prepare {
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A part of a command cannot be passed to a program.
    #[error("cannot start a program with this {what}")]
    Command {
        /// The part.
        what: &'static str,
        /// Why it cannot.
        #[source]
        source: TextError,
    },
    /// A variable's name is empty or has a `=`.
    #[error("{name:?} cannot be the name of a variable")]
    VariableName {
        /// The name.
        name: String,
    },
    /// Sending a message failed.
    #[error("cannot send to the guest")]
    Say {
        /// The error of the frame.
        #[source]
        source: FrameError,
    },
    /// The guest's bytes are not a message.
    #[error("cannot read what the guest sent")]
    Hear {
        /// The error of the frame.
        #[source]
        source: FrameError,
    },
    /// The guest's answer to the handshake was wrong.
    #[error("the guest did not answer the handshake")]
    Handshake {
        /// What was wrong.
        #[source]
        source: HandshakeError,
    },
    /// The guest sent a message or bytes that are not allowed at that point.
    #[error("the guest broke the protocol: {what}")]
    Breach {
        /// What the guest did.
        what: &'static str,
    },
    /// The connection failed, or the guest broke the yamux protocol.
    #[error("the connection to the guest failed")]
    Connection {
        /// The error of the connection.
        #[source]
        source: ConnectionError,
    },
    /// Too many executions run.
    #[error("too many executions, at most {most}")]
    TooManyExecutions {
        /// The maximum.
        most: usize,
    },
    /// Too many streams are open.
    #[error(
        "too many streams of executions, at most {most}; read or drop the output of those that have ended"
    )]
    TooManyStreams {
        /// The maximum.
        most: usize,
    },
    /// The execution has ended.
    #[error("execution {execution} does not run")]
    NotRunning {
        /// The execution.
        execution: u64,
    },
    /// The execution has pipes and no terminal.
    #[error("cannot resize execution {execution}: it has no terminal")]
    NoTerminal {
        /// The execution.
        execution: u64,
    },
    /// Not a valid signal number.
    #[error("cannot send signal {signal}: signals have the numbers 1 to 31")]
    Signal {
        /// The number.
        signal: i32,
    },
    /// The guest sent nothing for too many intervals.
    #[error("the guest was silent for {intervals} beats")]
    Silent {
        /// The number of intervals.
        intervals: u32,
    },
    /// No server inside accepts connections on a port.
    #[error("cannot connect to port {port} inside")]
    Port {
        /// The port.
        port: u16,
        /// The error of the kernel inside.
        #[source]
        source: io::Error,
    },
    /// The stream has ended.
    #[error("the stream to the guest has ended")]
    Closed,
    /// This error closed the link; everything that waits for the guest receives it.
    #[error(transparent)]
    Fault(Arc<LinkError>),
}

/// A link to one guest. Dropping it ends the guest.
#[derive(Debug)]
pub struct Link {
    streams: Streams,
    conversation: Arc<Conversation>,
    outbox: Outbox,
    hello: watch::Receiver<Option<HelloReply>>,
    executions: AtomicU64,
    filters: Vec<Filter>,
    file_operations: Arc<Semaphore>,
    port_connections: Arc<Semaphore>,
}

impl Link {
    /// Starts to use the stream to a newly started guest, and sends the hello without waiting.
    ///
    /// The gateway serves the streams that the guest opens; without one the guest may open none.
    /// Must be called in a tokio runtime, on which the connection and the gateway's tasks then run.
    pub fn open(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        gateway: Option<Arc<dyn Gateway>>,
        settings: LinkSettings,
    ) -> Result<Link, LinkError> {
        Link::open_with(Box::new(stream), None, gateway, settings)
    }

    /// Like [`Link::open`], over a socket whose other end the guest itself holds, so that fast
    /// downloads can use splice pipes. Not for a socket that an intermediary reads.
    pub fn open_socket(
        stream: UnixStream,
        gateway: Option<Arc<dyn Gateway>>,
        settings: LinkSettings,
    ) -> Result<Link, LinkError> {
        let stream =
            SocketTransport::new(stream).map_err(|source| LinkError::Prepare { source })?;
        let pipes = stream.pipes();
        Link::open_with(Box::new(stream), Some(pipes), gateway, settings)
    }

    fn open_with(
        stream: Box<dyn ByteStream>,
        pipes: Option<SplicePipes>,
        gateway: Option<Arc<dyn Gateway>>,
        settings: LinkSettings,
    ) -> Result<Link, LinkError> {
        let nonce = Nonce(random_bytes().map_err(|source| LinkError::Prepare { source })?);
        let mut streams = Streams::open(stream, pipes, gateway, settings.executions);
        let (reader, mut writer) = streams.control()?.split();
        streams::send_now(&mut writer, &greet(nonce))?;
        let (greeted, hello) = watch::channel(None);
        let conversation = Arc::new(Conversation::new(settings.executions));
        let (outbox, messages) = Outbox::new();
        let heartbeat = settings.liveness.heartbeat();
        if let Some(heartbeat) = heartbeat {
            outbox.send(&HostMessage::Heartbeat(heartbeat))?;
        }
        streams.drive(Driven {
            conversation: Arc::clone(&conversation),
            reader,
            writer,
            messages,
            outbox: outbox.clone(),
            nonce,
            greeted,
            heartbeat,
        });
        Ok(Link {
            streams,
            conversation,
            outbox,
            hello,
            executions: AtomicU64::new(0),
            filters: Vec::new(),
            file_operations: Arc::new(Semaphore::new(streams::MAX_FILE_OPERATIONS)),
            port_connections: Arc::new(Semaphore::new(streams::MAX_PORT_CONNECTIONS)),
        })
    }

    /// Sets the seccomp filters of all programs, in addition to those of the guest.
    #[must_use]
    pub fn with_filters(mut self, filters: Vec<Filter>) -> Link {
        self.filters = filters;
        self
    }

    /// The guest's hello reply, once it has arrived.
    pub async fn hello(&self) -> Result<HelloReply, LinkError> {
        match self.hello.clone().wait_for(Option::is_some).await {
            Ok(reply) => Ok(reply.clone().expect("it was waited for until it was there")),
            Err(_) => Err(self.conversation.why_closed()),
        }
    }

    /// Resolves when the link has ended.
    pub async fn ended(&self) {
        // The sender is dropped with the task that drives the link.
        let mut hello = self.hello.clone();
        while hello.changed().await.is_ok() {}
    }

    /// Starts a program, concurrently with those already running.
    ///
    /// Returns when the request is queued; the end reports whether the program started. Refuses
    /// more concurrent executions than the settings allow.
    pub fn execute(&self, command: Command) -> Result<(ExecutionControl, Running), Error> {
        self.execute_in(command, None, None)
    }

    /// Like [`Link::execute`], in a cgroup leaf whose files the guest has received already, as it has
    /// those of `next_leaf`, which an interpreter for the next execution may enter.
    pub fn execute_in(
        &self,
        command: Command,
        leaf: Option<u64>,
        next_leaf: Option<u64>,
    ) -> Result<(ExecutionControl, Running), Error> {
        let execution = self.executions.fetch_add(1, Ordering::Relaxed) + 1;
        let request = Execute { leaf, next_leaf, ..request(execution, &command, &self.filters)? };
        let request = HostMessage::Execute(Box::new(request));
        let end = self.conversation.expect(execution)?;
        let started = self.start(execution, &request, command.code);
        let (stdin, stdout, stderr) =
            started.inspect_err(|_| self.conversation.forget(execution))?;
        let control = ExecutionControl {
            execution,
            outbox: self.outbox.clone(),
            conversation: Arc::clone(&self.conversation),
        };
        let running = Running {
            id: ExecutionId(execution),
            control: Arc::new(control.clone()),
            stdin: Box::new(stdin.compat_write()),
            stdout: Box::new(stdout.compat()),
            stderr: Box::new(stderr.compat()),
            end: Box::pin(wait(end, Arc::clone(&self.conversation))),
        };
        Ok((control, running))
    }

    /// Sends a request and opens the streams of its execution.
    fn start(
        &self,
        execution: u64,
        request: &HostMessage,
        code: Option<(String, Vec<u8>)>,
    ) -> Result<(Counted, Counted, Counted), LinkError> {
        self.streams.check_room()?;
        let stdin = self.streams.stream(execution, Role::Input)?;
        let stdout = self.streams.stream(execution, Role::Output)?;
        let stderr = self.streams.stream(execution, Role::Error)?;
        let code = code.map(|(_, bytes)| Ok((self.streams.stream(execution, Role::Code)?, bytes)));
        let code = code.transpose()?;
        self.outbox.send(request)?;
        if let Some((stream, bytes)) = code {
            tokio::spawn(streams::upload(stream, bytes));
        }
        Ok((stdin, stdout, stderr))
    }

    /// The files inside; relative paths start in `workspace`, an absolute path. `places` are those
    /// that a checkpoint has.
    pub fn files(&self, workspace: &str, places: Vec<WritablePlace>) -> Arc<dyn Files> {
        let streams = self.streams.shared();
        let operations = Arc::clone(&self.file_operations);
        let workspace = workspace.as_bytes().to_vec();
        Arc::new(LinkFiles { streams, operations, workspace, places })
    }

    /// The ports of servers inside. Only for a guest whose loopback is not that of the host.
    pub fn ports(&self) -> Arc<dyn Ports> {
        let connections = Arc::clone(&self.port_connections);
        Arc::new(LinkPorts { streams: self.streams.shared(), connections })
    }

    /// Stops all processes inside until [`Link::resume`].
    pub fn pause(&self) -> Result<(), LinkError> {
        self.outbox.send(&HostMessage::Pause)
    }

    /// Continues all processes inside.
    pub fn resume(&self) -> Result<(), LinkError> {
        self.outbox.send(&HostMessage::Resume)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.conversation.close(None);
    }
}

impl LinkError {
    fn kind(&self) -> ErrorKind {
        match self {
            LinkError::Prepare { .. } => ErrorKind::Internal,
            LinkError::Command { .. }
            | LinkError::VariableName { .. }
            | LinkError::Signal { .. }
            | LinkError::NotRunning { .. }
            | LinkError::NoTerminal { .. } => ErrorKind::Invalid,
            LinkError::Port { .. } => ErrorKind::Unavailable,
            LinkError::TooManyExecutions { .. } | LinkError::TooManyStreams { .. } => {
                ErrorKind::Busy
            }
            LinkError::Say { source: FrameError::TooLong { .. } } => ErrorKind::Invalid,
            LinkError::Say { .. }
            | LinkError::Hear { .. }
            | LinkError::Handshake { .. }
            | LinkError::Breach { .. }
            | LinkError::Connection { .. }
            | LinkError::Silent { .. }
            | LinkError::Closed => ErrorKind::Lost,
            LinkError::Fault(fault) => fault.kind(),
        }
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Error {
        Error::new(error.kind(), error)
    }
}

/// Waits for the end of an execution, or of the link if that comes first.
async fn wait(
    end: oneshot::Receiver<ProcessEnd>,
    conversation: Arc<Conversation>,
) -> Result<ProcessEnd, Error> {
    match end.await {
        Ok(end) => Ok(end),
        Err(_) => match conversation.fault() {
            Some(fault) => Err(fault.into()),
            None => Ok(ProcessEnd::SandboxEnded { signal: None }),
        },
    }
}

/// The size of a terminal, as the guest receives it.
fn window_size(size: TerminalSize) -> WindowSize {
    WindowSize { columns: size.columns, rows: size.rows }
}

fn request(execution: u64, command: &Command, filters: &[Filter]) -> Result<Execute, LinkError> {
    let text = |what, text: &str| {
        Text::try_from(text).map_err(|source| LinkError::Command { what, source })
    };
    let variable = |(name, value): &(String, String)| {
        if name.is_empty() || name.contains('=') {
            return Err(LinkError::VariableName { name: name.clone() });
        }
        Ok((text("variable", name)?, text("variable", value)?))
    };
    let code = |(path, bytes): &(String, Vec<u8>)| {
        Ok::<_, LinkError>(CodeFile { path: text("path", path)?, bytes: bytes.len() as u64 })
    };
    Ok(Execute {
        execution,
        program: text("name", &command.program)?,
        arguments: command
            .arguments
            .iter()
            .map(|argument| text("argument", argument))
            .collect::<Result<_, _>>()?,
        environment: command.environment.iter().map(variable).collect::<Result<_, _>>()?,
        working_directory: text("working directory", &command.working_directory)?,
        code: command.code.as_ref().map(code).transpose()?,
        next_code: command.next_code.as_deref().map(|path| text("path", path)).transpose()?,
        terminal: command.terminal.map(window_size),
        filters: filters.to_vec(),
        leaf: None,
        next_leaf: None,
    })
}
