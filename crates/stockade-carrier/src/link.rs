//! The host's end of the stream to a guest.
//!
//! ```text
//! open ── hello ──▶ linked ── execute ──▶ running ── Ended or NotStarted ──▶ linked
//!                      │                     │
//!                      └── end of stream ────┴──▶ closed: the sandbox has ended
//!                      └── a breach of the protocol ──▶ closed: an error
//! ```
//! Nothing is waited for on the way to `running`: hello, request and streams leave in one go.
//! Everything that comes from the guest is bounded and checked; dropping the link closes the
//! stream, and with it the guest ends. Streams that the guest opens are served beside all this, and
//! nothing waits for them.

mod conversation;
mod gate;
mod lanes;
mod ledger;
mod opened;
mod outlet;
mod sieve;
mod streams;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::io::{AsyncReadExt, WriteHalf};
use stockade_provider::{Error, ErrorKind, Gateway, ProcessEnd, Running};
use stockade_sys::random_bytes;
use stockade_wire::{
    CodeFile, Execute, FrameError, HandshakeError, HelloReply, HostMessage, Nonce, Role, Text,
    TextError, greet, write_message,
};
use tokio::sync::{Mutex, oneshot, watch};
use tokio_util::compat::{FuturesAsyncReadCompatExt, FuturesAsyncWriteCompatExt};
use yamux::ConnectionError;

use conversation::Conversation;
use ledger::Counted;
use streams::Streams;

/// A program for the guest to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A path inside, or a bare name that is looked for along the `PATH` of the environment.
    pub program: String,
    /// What the program sees as its arguments, its own name first.
    pub arguments: Vec<String>,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// Where it starts.
    pub working_directory: String,
    /// A file to write first: its path inside and its bytes.
    pub code: Option<(String, Vec<u8>)>,
}

/// Why a link could not be opened or used, or why it was closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The socket or a random number could not be had.
    #[error("cannot prepare the stream to the guest")]
    Prepare {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A part of a command cannot be given to a program.
    #[error("cannot start a program with this {what}")]
    Command {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: TextError,
    },
    /// A variable's name is empty or has a `=`.
    #[error("{name:?} cannot be the name of a variable")]
    VariableName {
        /// The name.
        name: String,
    },
    /// A message could not be said.
    #[error("cannot tell the guest")]
    Say {
        /// What went wrong.
        #[source]
        source: FrameError,
    },
    /// What came is not a message.
    #[error("cannot understand the guest")]
    Hear {
        /// What went wrong.
        #[source]
        source: FrameError,
    },
    /// The guest did not answer as it should.
    #[error("the guest did not answer the handshake")]
    Handshake {
        /// What went wrong.
        #[source]
        source: HandshakeError,
    },
    /// The guest said something that has no place there.
    #[error("the guest broke the protocol: {what}")]
    Breach {
        /// What it did.
        what: &'static str,
    },
    /// The connection failed, or the guest broke its rules.
    #[error("the connection to the guest failed")]
    Connection {
        /// What was wrong.
        #[source]
        source: ConnectionError,
    },
    /// The stream has ended.
    #[error("the stream to the guest has ended")]
    Closed,
}

/// A link to one guest. Dropping it ends the guest.
#[derive(Debug)]
pub struct Link {
    streams: Streams,
    conversation: Arc<Conversation>,
    control: Mutex<WriteHalf<Counted>>,
    hello: watch::Receiver<Option<HelloReply>>,
    executions: AtomicU64,
}

impl Link {
    /// Takes over the stream to a guest that was just started, and greets it without waiting.
    ///
    /// What the guest opens goes to the gateway; without one it may open nothing. Must be called
    /// inside a tokio runtime, on which the connection then runs, and everything the gateway serves.
    pub fn open(stream: UnixStream, gateway: Option<Arc<dyn Gateway>>) -> Result<Link, LinkError> {
        let nonce = random_bytes().map_err(|source| LinkError::Prepare { source })?;
        let mut streams = Streams::open(stream, gateway)?;
        let (reader, mut writer) = streams.control()?.split();
        streams::send_now(&mut writer, &greet(Nonce(nonce)))?;
        let (greeted, hello) = watch::channel(None);
        let conversation = Arc::new(Conversation::default());
        streams.drive(Arc::clone(&conversation), reader, Nonce(nonce), greeted);
        Ok(Link {
            streams,
            conversation,
            control: Mutex::new(writer),
            hello,
            executions: AtomicU64::new(0),
        })
    }

    /// What the guest said of itself, once it has.
    pub async fn hello(&mut self) -> Result<HelloReply, LinkError> {
        match self.hello.wait_for(Option::is_some).await {
            Ok(reply) => Ok(reply.clone().expect("it was waited for until it was there")),
            Err(_) => Err(self.conversation.take_fault().unwrap_or(LinkError::Closed)),
        }
    }

    /// Starts a program. While one runs the guest refuses another with `EBUSY`.
    ///
    /// Returns when the request is on its way; whether the program could be started is what the
    /// end says.
    pub async fn execute(&self, command: Command) -> Result<Running, Error> {
        let execution = self.executions.fetch_add(1, Ordering::Relaxed) + 1;
        let request = HostMessage::Execute(request(execution, &command)?);
        let stdin = self.streams.stream(execution, Role::Input)?;
        let stdout = self.streams.stream(execution, Role::Output)?;
        let stderr = self.streams.stream(execution, Role::Error)?;
        if let Some((_, bytes)) = command.code {
            let stream = self.streams.stream(execution, Role::Code)?;
            tokio::spawn(streams::upload(stream, bytes));
        }
        let end = self.conversation.expect(execution);
        self.say(&request).await?;
        Ok(Running {
            stdin: Box::new(stdin.compat_write()),
            stdout: Box::new(stdout.compat()),
            stderr: Box::new(stderr.compat()),
            end: Box::pin(wait(end, Arc::clone(&self.conversation))),
        })
    }

    /// Stops everything inside until [`Link::resume`].
    pub async fn pause(&self) -> Result<(), LinkError> {
        self.say(&HostMessage::Pause).await
    }

    /// Lets everything inside go on.
    pub async fn resume(&self) -> Result<(), LinkError> {
        self.say(&HostMessage::Resume).await
    }

    async fn say(&self, message: &HostMessage) -> Result<(), LinkError> {
        let mut control = self.control.lock().await;
        write_message(&mut *control, message).await.map_err(|source| LinkError::Say { source })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.conversation.close(None);
    }
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Error {
        let kind = match &error {
            LinkError::Prepare { .. } => ErrorKind::Internal,
            LinkError::Command { .. } | LinkError::VariableName { .. } => ErrorKind::Invalid,
            LinkError::Say { source: FrameError::TooLong { .. } } => ErrorKind::Invalid,
            LinkError::Say { .. }
            | LinkError::Hear { .. }
            | LinkError::Handshake { .. }
            | LinkError::Breach { .. }
            | LinkError::Connection { .. }
            | LinkError::Closed => ErrorKind::Lost,
        };
        Error::new(kind, error)
    }
}

/// The end of an execution, or of the link if that comes first.
async fn wait(
    end: oneshot::Receiver<ProcessEnd>,
    conversation: Arc<Conversation>,
) -> Result<ProcessEnd, Error> {
    match end.await {
        Ok(end) => Ok(end),
        Err(_) => match conversation.take_fault() {
            Some(fault) => Err(fault.into()),
            None => Ok(ProcessEnd::SandboxEnded { signal: None }),
        },
    }
}

fn request(execution: u64, command: &Command) -> Result<Execute, LinkError> {
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
    })
}
