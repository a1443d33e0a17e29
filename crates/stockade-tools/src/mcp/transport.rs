//! The pipes of an MCP server, as a transport for the MCP library.
//!
//! Only answers are passed on. Requests of the server are refused here and notifications dropped,
//! so that a flooding server costs no memory.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::fault::{Code, Fault};
use crate::json::{Bounds, JsonError, read};
use crate::lines::{Ends, Lines, Read};
use crate::task::AbortOnDrop;

/// The deepest message. The library parses messages recursively.
const MOST_DEPTH: usize = 128;

/// A line that is too long is discarded up to this length; a server that sends more is given up.
const HARD_BYTES: u64 = 256 << 20;

/// How long to wait for a process to exit after its output ends. Servers that close stdout and keep
/// running are rare; a server that exits on a busy machine is common, and the error names its exit.
const EXIT_TIME: Duration = Duration::from_secs(5);

/// Messages that wait for the server to read them.
const WAITING: usize = 64;

/// State shared by the transport and the server's callers.
#[derive(Debug)]
pub(super) struct Shared {
    /// The most bytes of a line.
    pub(super) most_line: AtomicUsize,
    /// Bytes that wait for the server to read them.
    pub(super) unread: AtomicUsize,
    /// The last answer that could not be parsed, and how many there were.
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

    /// Records why the server is gone; keeps the first reason.
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

/// What the server sent.
enum Line {
    Whole(Vec<u8>),
    TooLong(Ends),
}

/// Stockade's errors among those of the server, by codes that the protocol leaves free.
const OWN_CODES: [(Code, i32); 3] =
    [(Code::TooLarge, -31_901), (Code::TooDeep, -31_902), (Code::InvalidResult, -31_903)];

fn error_code(code: Code) -> ErrorCode {
    let own = OWN_CODES.iter().find(|(own, _)| *own == code);
    own.map_or(ErrorCode::INTERNAL_ERROR, |(_, number)| ErrorCode(*number))
}

/// Maps an error of a call back: Stockade's own, or the tool's.
pub(super) fn fault_of(error: &ErrorData) -> Fault {
    let own = OWN_CODES.iter().find(|(_, number)| *number == error.code.0);
    Fault::new(own.map_or(Code::Failed, |(code, _)| *code), &error.message)
}

/// The id of an answer that was not parsed. Servers write it first or last, and nothing inside the
/// answer can imitate it there: quotes in strings are escaped, and inner objects end with a further
/// brace.
fn id_of(head: &[u8], tail: &[u8]) -> Option<i64> {
    let head = String::from_utf8_lossy(&head[..head.len().min(64)]).replace(' ', "");
    if let Some(rest) = head.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":") {
        return rest.split_once(',').and_then(|(number, _)| number.parse().ok());
    }
    let tail = tail.trim_ascii_end();
    let tail = String::from_utf8_lossy(&tail[tail.len().saturating_sub(64)..]).replace(' ', "");
    let number = tail.strip_suffix('}')?.rsplit_once(",\"id\":")?.1;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
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

    /// The next line within the length limit, or why to give up the server.
    async fn line(&mut self) -> Result<Line, String> {
        loop {
            if self.is_dropping {
                let skipped = self.lines.skip(HARD_BYTES).await;
                self.is_dropping = false;
                return match skipped {
                    Ok(Some(ends)) => Ok(Line::TooLong(ends)),
                    Ok(None) | Err(_) => Err("wrote a line that does not end".to_owned()),
                };
            }
            let most = self.shared.most_line.load(Ordering::Relaxed);
            match self.lines.next(most).await {
                Ok(Read::Line(line)) => return Ok(Line::Whole(line)),
                Ok(Read::More) => self.is_dropping = true,
                Ok(Read::End) => return Err("closed its output".to_owned()),
                Err(error) => return Err(format!("cannot be read: {error}")),
            }
        }
    }

    /// Parses the answer in a line, if it is one.
    fn understand(&self, line: &Line) -> Option<ServerJsonRpcMessage> {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(ends) => {
                let most = self.shared.most_line.load(Ordering::Relaxed);
                let message = format!(
                    "the tool's server answered with more than {most} bytes; ask for less, or raise max_tool_bytes in the policy"
                );
                return self.unreadable(
                    Fault::new(Code::TooLarge, message),
                    &ends.head,
                    &ends.tail,
                );
            }
        };
        let bounds = Bounds { bytes: line.len(), depth: MOST_DEPTH };
        let value = match read(line, bounds) {
            Ok(value) => value,
            // Some servers print other things to stdout; only a line that starts like a message
            // could be an answer.
            Err(JsonError::Invalid { .. }) if !line.trim_ascii_start().starts_with(b"{") => {
                return None;
            }
            Err(error) => return self.unreadable(Fault::result(&error), line, line),
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
                self.unreadable(Fault::new(Code::InvalidResult, message), line, line)
            }
        }
    }

    /// An answer that cannot be parsed fails its call. If its call is unknown, all running calls
    /// fail.
    fn unreadable(&self, fault: Fault, head: &[u8], tail: &[u8]) -> Option<ServerJsonRpcMessage> {
        match id_of(head, tail) {
            Some(id) => {
                let error = ErrorData::new(error_code(fault.code), fault.message, None);
                Some(ServerJsonRpcMessage::error(error, Some(RequestId::Number(id))))
            }
            None => {
                self.shared.trouble(fault);
                None
            }
        }
    }

    /// Answers a request of the server, unless the server does not read its answers.
    fn refuse(&self, request: &Value, id: &Value) {
        let answer = if request.get("method").and_then(Value::as_str) == Some("ping") {
            json!({"jsonrpc": "2.0", "id": id, "result": {}})
        } else {
            let error = json!({"code": -32601, "message": "this client serves no requests"});
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
                    // The exit status explains more, and is known shortly.
                    let mut gone = self.shared.gone.subscribe();
                    let _ = timeout(EXIT_TIME, gone.wait_for(Option::is_some)).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unparsed_answer_is_identified_by_its_first_or_last_bytes() {
        let id = |line: &str| id_of(line.as_bytes(), line.as_bytes());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Some(7));
        assert_eq!(id(r#"{"jsonrpc": "2.0", "id": 8, "result": {}}"#), Some(8));
        assert_eq!(id(r#"{"result":{"x":1},"jsonrpc":"2.0","id":9}"#), Some(9));
        assert_eq!(id(r#"{"result":{"x":1},"id":9,"jsonrpc":"2.0"}"#), None);
        // An id inside a result is not trusted.
        assert_eq!(id(r#"{"id":3,"result":{"a":1,"id":5}}"#), None);
        assert_eq!(id(r#"{"result":"{\"jsonrpc\":\"2.0\",\"id\":5}"}"#), None);
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#), None);
    }
}
