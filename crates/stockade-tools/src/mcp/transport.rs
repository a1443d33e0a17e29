//! The pipes of an MCP server, for the library that speaks the protocol.
//!
//! Only answers are passed on. Requests of the server are refused here and notifications
//! dropped, so that a server that floods costs no memory.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::fault::{Code, Fault};
use crate::json::{Bounds, JsonError, read};
use crate::lines::{Lines, Read};
use crate::task::AbortOnDrop;

/// Deepest message. The library reads messages by recursion.
const MOST_DEPTH: usize = 128;

/// A line longer than may be is dropped up to this length; a server that says more is given up.
const HARD_BYTES: u64 = 256 << 20;

/// How long the end of a process may come after that of its output.
const LAST_WORD: Duration = Duration::from_millis(300);

/// Messages that wait for the server to read.
const WAITING: usize = 64;

/// What the transport and the server's callers share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The most bytes of a line.
    pub(super) most_line: AtomicUsize,
    /// Bytes that wait for the server to read them.
    pub(super) unread: AtomicUsize,
    /// The last answer that could not be read, and how many there were.
    pub(super) trouble: watch::Sender<(u64, Fault)>,
    /// Why the server is gone.
    pub(super) gone: watch::Sender<Option<String>>,
}

impl Shared {
    pub(super) fn new(most_line: usize) -> Shared {
        Shared {
            most_line: AtomicUsize::new(most_line),
            unread: AtomicUsize::new(0),
            trouble: watch::Sender::new((0, Fault::broken(""))),
            gone: watch::Sender::new(None),
        }
    }

    /// Notes why the server is gone; the first reason stays.
    pub(super) fn is_gone(&self, why: &str) {
        self.gone.send_if_modified(|gone| {
            let is_first = gone.is_none();
            gone.get_or_insert_with(|| why.to_owned());
            is_first
        });
    }

    fn trouble(&self, fault: Fault) {
        self.trouble.send_modify(|(count, last)| {
            *count += 1;
            *last = fault;
        });
    }
}

pub(super) struct Pipe {
    lines: Lines<ChildStdout>,
    is_dropping: bool,
    sender: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
    _writer: AbortOnDrop<()>,
}

impl Pipe {
    pub(super) fn new(mut input: ChildStdin, output: ChildStdout, shared: Arc<Shared>) -> Pipe {
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(WAITING);
        let counts = Arc::clone(&shared);
        let writer = tokio::spawn(async move {
            while let Some(message) = receiver.recv().await {
                let written = input.write_all(&message).await;
                counts.unread.fetch_sub(message.len(), Ordering::Relaxed);
                if written.is_err() {
                    break;
                }
            }
        });
        let lines = Lines::new(output);
        Pipe { lines, is_dropping: false, sender, shared, _writer: AbortOnDrop(writer) }
    }

    /// The next line that is no longer than it may be; why the server is to be given up otherwise.
    async fn line(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if self.is_dropping {
                let skipped = self.lines.skip(HARD_BYTES).await;
                self.is_dropping = false;
                if !matches!(skipped, Ok(Some(_))) {
                    return Err("wrote a line that does not end".to_owned());
                }
            }
            let most = self.shared.most_line.load(Ordering::Relaxed);
            match self.lines.next(most).await {
                Ok(Read::Line(line)) => return Ok(line),
                Ok(Read::More) => {
                    self.is_dropping = true;
                    self.shared.trouble(Fault::new(
                        Code::TooLarge,
                        format!("the tool's server answered with more than {most} bytes; ask for less, or raise max_tool_bytes in the policy"),
                    ));
                }
                Ok(Read::End) => return Err("closed its output".to_owned()),
                Err(error) => return Err(format!("cannot be read: {error}")),
            }
        }
    }

    /// The answer that a line is, if it is one.
    fn understand(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let bounds = Bounds { bytes: line.len(), depth: MOST_DEPTH };
        let value = match read(line, bounds) {
            Ok(value) => value,
            // Some servers print other things to their output; only what begins like a message
            // could have been an answer.
            Err(JsonError::Invalid { .. }) if !line.trim_ascii_start().starts_with(b"{") => {
                return None;
            }
            Err(error) => {
                self.shared.trouble(Fault::result(&error));
                return None;
            }
        };
        if value.get("method").is_some() {
            if let Some(id) = value.get("id") {
                self.refuse(&value, id);
            }
            return None;
        }
        match serde_json::from_value(value) {
            Ok(message @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) => {
                Some(message)
            }
            _ => {
                let message = "the tool's server answered with something that is not MCP";
                self.shared.trouble(Fault::new(Code::InvalidResult, message));
                None
            }
        }
    }

    /// Answers a request of the server, unless it does not read its answers.
    fn refuse(&self, request: &Value, id: &Value) {
        let answer = if request.get("method").and_then(Value::as_str) == Some("ping") {
            json!({"jsonrpc": "2.0", "id": id, "result": {}})
        } else {
            let error = json!({"code": -32601, "message": "this client offers nothing"});
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        };
        let mut line = answer.to_string().into_bytes();
        line.push(b'\n');
        let bytes = line.len();
        self.shared.unread.fetch_add(bytes, Ordering::Relaxed);
        if self.sender.try_send(line).is_err() {
            self.shared.unread.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "the pipes of a server".into()
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sender = self.sender.clone();
        let line = serde_json::to_vec(&message).map(|mut line| {
            line.push(b'\n');
            line
        });
        let shared = Arc::clone(&self.shared);
        if let Ok(line) = &line {
            shared.unread.fetch_add(line.len(), Ordering::Relaxed);
        }
        async move {
            let line = line?;
            let bytes = line.len();
            sender.send(line).await.map_err(|_| {
                shared.unread.fetch_sub(bytes, Ordering::Relaxed);
                io::Error::from(io::ErrorKind::BrokenPipe)
            })
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.line().await {
                Ok(line) => {
                    if let Some(message) = self.understand(&line) {
                        return Some(message);
                    }
                }
                Err(why) => {
                    // How the process ended says more, and is known in a moment.
                    let mut gone = self.shared.gone.subscribe();
                    let _ = timeout(LAST_WORD, gone.wait_for(Option::is_some)).await;
                    self.shared.is_gone(&why);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
