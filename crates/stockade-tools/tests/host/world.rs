//! A tool broker with a policy, tools and a record, and programs that connect to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stockade_policy::{Context, Policy};
use stockade_record::{Egress, Sink, ToolCall, Unrecorded};
use stockade_tools::{HostEnvironment, ToolBroker, Tools, ToolsFile};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(DEADLINE, future).await.expect("it takes too long")
}

pub(crate) fn policy(text: &str) -> Arc<Policy> {
    Arc::new(Policy::parse_str("p.yaml", text, Path::new("/srv")).unwrap())
}

/// Keeps events, and can be set to fail.
#[derive(Debug)]
pub(crate) struct Recorder {
    events: watch::Sender<Vec<ToolCall>>,
    fails: Mutex<bool>,
}

impl Sink for Recorder {
    fn egress(&self, _event: Egress) -> Result<(), Unrecorded> {
        Err(Unrecorded)
    }

    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded> {
        if *self.fails.lock().unwrap() {
            return Err(Unrecorded);
        }
        self.events.send_modify(|events| events.push(event));
        Ok(())
    }
}

pub(crate) struct World {
    pub(crate) broker: ToolBroker,
    recorder: Arc<Recorder>,
}

impl World {
    /// A broker with a policy that has further lines in addition to the tools.
    pub(crate) fn new(tools: Tools, more: &str) -> World {
        let names: Vec<&str> = tools.names().collect();
        let text = format!("tool_allowlist: [{}]\n{more}", names.join(", "));
        World::with_policy(tools, &text)
    }

    pub(crate) fn with_policy(tools: Tools, text: &str) -> World {
        let recorder =
            Arc::new(Recorder { events: watch::Sender::new(Vec::new()), fails: Mutex::new(false) });
        let broker = ToolBroker::new(policy(text), tools, Context::default(), recorder.clone());
        World { broker, recorder }
    }

    pub(crate) fn break_record(&self) {
        *self.recorder.fails.lock().unwrap() = true;
    }

    /// A connection as the guest opens it for a program.
    pub(crate) fn connect(&self) -> Program {
        let (inside, outside) = UnixStream::pair().unwrap();
        tokio::spawn(self.broker.serve(Box::new(outside)));
        Program::new(inside)
    }

    /// One call over its own connection.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.connect().call(tool, arguments).await
    }

    /// The events, once there are so many.
    pub(crate) async fn events(&self, count: usize) -> Vec<ToolCall> {
        let mut receiver = self.recorder.events.subscribe();
        let events = within(receiver.wait_for(|events| events.len() >= count)).await;
        events.unwrap().clone()
    }

    /// The outcomes of all calls in the order they ended, once there are so many.
    pub(crate) async fn outcomes(&self, count: usize) -> Vec<String> {
        self.events(count).await.into_iter().map(|event| event.outcome).collect()
    }
}

/// A program inside, as seen from its socket.
pub(crate) struct Program {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    asked: u64,
}

impl Program {
    fn new(stream: UnixStream) -> Program {
        let (reader, writer) = stream.into_split();
        Program { reader: BufReader::new(reader), writer, asked: 0 }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.writer.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Sends although the broker may have closed the connection.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = within(self.writer.write_all(bytes.as_ref())).await;
    }

    /// Half-closes the connection: sends no more, but still reads.
    pub(crate) async fn end_input(&mut self) {
        within(self.writer.shutdown()).await.unwrap();
    }

    /// Sends a request without waiting for the answer; returns the id.
    pub(crate) async fn ask(&mut self, tool: &str, arguments: Value) -> u64 {
        self.asked += 1;
        let request = json!({"id": self.asked, "call": tool, "arguments": arguments});
        self.send(format!("{request}\n")).await;
        self.asked
    }

    /// Waits until bytes can be read, and leaves most of them unread.
    pub(crate) async fn peek(&mut self) {
        within(self.reader.fill_buf()).await.unwrap();
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Value {
        let mut line = String::new();
        within(self.reader.read_line(&mut line)).await.unwrap();
        assert!(line.ends_with('\n'), "the connection ended: {line:?}");
        serde_json::from_str(&line).unwrap()
    }

    /// One call and its answer, without the id.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.ask(tool, arguments).await;
        let mut answer = self.answer().await;
        assert_eq!(answer.as_object_mut().unwrap().remove("id"), Some(json!(id)));
        answer
    }

    /// Everything up to the end.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = within(self.reader.read_to_end(&mut rest)).await;
        String::from_utf8(rest).unwrap()
    }
}

pub(crate) fn result(value: impl Into<Value>) -> Value {
    json!({"result": value.into()})
}

/// The code of an error answer, which must have a message.
pub(crate) fn code(answer: &Value) -> String {
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    answer["error"]["code"].as_str().unwrap().to_owned()
}

pub(crate) fn message(answer: &Value) -> String {
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A directory with scripts and tools files.
pub(crate) struct Workshop {
    directory: tempfile::TempDir,
    pub(crate) around: HostEnvironment,
}

impl Workshop {
    pub(crate) fn new() -> Workshop {
        let directory = tempfile::tempdir().unwrap();
        let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        Workshop {
            directory,
            around: HostEnvironment { environment, ..HostEnvironment::of_this_process() },
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A program that answers 1.
    pub(crate) fn executable(&self, name: &str) -> PathBuf {
        let path = self.write(name, "#!/bin/sh\necho 1\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn file(&self, yaml: &str) -> ToolsFile {
        ToolsFile::parse("tools.yaml", yaml.as_bytes(), self.path()).unwrap()
    }

    pub(crate) async fn tools(&self, yaml: &str) -> Tools {
        within(self.file(yaml).start_in(&self.around)).await.unwrap()
    }

    pub(crate) async fn refusal(&self, yaml: &str) -> String {
        let error = within(self.file(yaml).start_in(&self.around)).await.unwrap_err();
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text.push_str(&format!(": {source}"));
        }
        text
    }

    /// A Python program as a tool that takes any arguments.
    pub(crate) async fn python(&self, name: &str, code: &str, more: &str) -> Tools {
        self.write(&format!("{name}.py"), code);
        let yaml = format!(
            "tools:\n  - name: {name}\n    command: [python3, ./{name}.py]\n    input_schema: \
             {{type: object}}\n{more}"
        );
        self.tools(&yaml).await
    }
}

/// Waits until a process has exited; a zombie counts as exited.
pub(crate) async fn gone(process: i64) {
    within(async {
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            if stat.is_empty() || matches!(state, Some('Z' | 'X')) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(crate) fn is_alive(process: i64) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Waits until a file exists and ends with a line feed, and returns its numbers.
pub(crate) async fn numbers(path: &Path) -> Vec<i64> {
    within(async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') {
                return text.split_whitespace().map(|word| word.parse().unwrap()).collect();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
