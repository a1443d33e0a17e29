//! Requests to a session.

use serde::{Deserialize, Serialize};

use crate::{ContextParams, FileParams, PortParams, RestoreParams, StoreParams};

/// The first frame of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Run a program.
    Execute(ExecuteParams),
    /// Receive the output of a running program, and send it input.
    Attach {
        /// Which program.
        execution: u64,
    },
    /// Send a signal to a running program; SIGKILL ends its descendants too.
    Signal {
        /// Which program.
        execution: u64,
        /// The signal's number.
        signal: i32,
    },
    /// Describe the session.
    Inspect,
    /// List the programs.
    Ps,
    /// Measure what the sandbox used.
    Stats,
    /// Send the kept output of programs.
    Logs {
        /// Which program; `None` means all.
        execution: Option<u64>,
        /// Whether to wait for more.
        follow: bool,
    },
    /// Use the files inside.
    File(FileParams),
    /// Use a context: an interpreter that keeps its state between calls.
    Context(ContextParams),
    /// Forward ports of servers inside.
    Port(PortParams),
    /// Replace the value of a secret; programs keep their placeholder.
    SetSecret {
        /// The secret.
        name: String,
        /// Its new value.
        value: SecretText,
    },
    /// Stop all programs until [`Request::Resume`].
    Pause,
    /// Continue all programs.
    Resume,
    /// Keep the files, with all programs stopped during the copy.
    Checkpoint {
        /// The name of the checkpoint in this session.
        name: String,
        /// Where it is kept.
        store: StoreParams,
    },
    /// Replace the files by those of a checkpoint, or by none.
    Restore(RestoreParams),
    /// End the session.
    Remove {
        /// End it although programs run.
        force: bool,
    },
}

/// A value that no message or log shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretText(..)")
    }
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteParams {
    /// What to start.
    pub program: ProgramParams,
    /// Variables, in addition to those of the session.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the client passes them to
    /// this program knowingly.
    pub credentials: Vec<String>,
    /// Where it starts; `None` is the workspace.
    pub working_directory: Option<String>,
    /// How long it may run, if that is less than the policy allows.
    pub timeout_ms: Option<u64>,
    /// A terminal of this size instead of pipes.
    pub terminal: Option<TerminalParams>,
    /// Whether it continues without this client.
    pub detach: bool,
    /// Whether the client sends input; otherwise the input is empty.
    pub input: bool,
}

/// What to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProgramParams {
    /// A program with its arguments, starting with its own name.
    Command {
        /// The program name and its arguments.
        argv: Vec<String>,
    },
    /// Code, which follows in frames of its own.
    Code {
        /// The language.
        language: String,
        /// The file name in messages.
        name: String,
        /// The arguments of the code.
        arguments: Vec<String>,
    },
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalParams {
    /// Its width.
    pub columns: u16,
    /// Its height.
    pub rows: u16,
}

/// A message about a running program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlMessage {
    /// Send it a signal.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// Resize its terminal.
    Resize(TerminalParams),
}
