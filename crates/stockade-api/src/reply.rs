//! Replies of a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CheckpointView, ContextView, FileChangeView, FileResult, PortView};

/// An answer of the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The request was carried out.
    Done,
    /// A program runs.
    Started {
        /// Its number in the session.
        execution: u64,
    },
    /// A program has ended.
    Ended {
        /// The exit code of the command line for this outcome.
        code: u8,
        /// The report, as `stockade run --json` prints it.
        report: Value,
    },
    /// Answers `Inspect`.
    Session(Box<SessionView>),
    /// Answers `Ps`.
    Executions(Vec<ExecutionView>),
    /// Answers `Checkpoint`.
    Checkpoint(CheckpointView),
    /// Answers `Stats`.
    Stats(StatsView),
    /// Answers `File`.
    File(FileResult),
    /// A change below a watched directory.
    FileChange(FileChangeView),
    /// An operation on files failed.
    FileFailed {
        /// The kind of the error as one word.
        kind: String,
        /// The error.
        failure: Failure,
    },
    /// Answers `Context`.
    Contexts(Vec<ContextView>),
    /// Answers `Port`.
    Ports(Vec<PortView>),
    /// The request could not be carried out.
    Failed(Failure),
}

/// Why a request could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The operation, its object, and why it failed.
    pub message: String,
    /// What to do next.
    pub remedy: String,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its name.
    pub name: String,
    /// The process that holds it.
    pub supervisor: u32,
    /// `running`, `paused` or `ending`.
    pub state: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// The wall.
    pub provider: String,
    /// The wall's isolation level.
    pub isolation: String,
    /// The name of the policy.
    pub policy: String,
    /// The policy's text with every default filled in.
    pub policy_text: String,
    /// How many programs run.
    pub running: usize,
    /// How many programs were started.
    pub executions: u64,
    /// How long it may exist, in seconds.
    pub ttl_seconds: Option<u64>,
    /// How long it may be idle, in seconds.
    pub idle_seconds: Option<u64>,
    /// The id of the record, if one is kept.
    pub record: Option<String>,
    /// Every control with the mechanism that enforces it.
    pub controls: Value,
}

/// A program of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionView {
    /// Its number in the session.
    pub execution: u64,
    /// `running`, or how it ended.
    pub state: String,
    /// The exit code of the command line, once it has ended.
    pub code: Option<u8>,
    /// When it was started, in seconds since 1970.
    pub started: u64,
    /// What was started.
    pub command: Vec<String>,
    /// Whether it continues without a client.
    pub detached: bool,
    /// Whether it has a terminal.
    pub terminal: bool,
}

/// What a sandbox used so far; `None` if this host's kernel does not report a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsView {
    /// Processor time.
    pub cpu_ms: Option<u64>,
    /// The memory in use now.
    pub memory_bytes: Option<u64>,
    /// The most memory at once.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks at once.
    pub tasks_peak: Option<u64>,
    /// Processes that the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// How many programs run.
    pub running: usize,
    /// What passed the gate so far; `None` if no record is kept.
    pub network: Option<NetworkView>,
    /// How many acts were denied so far.
    pub denied: u64,
    /// The last denials, the oldest first.
    pub denials: Vec<DenialView>,
}

/// What passed the gate. A connection counts when it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkView {
    /// Bytes from inside to hosts.
    pub sent_bytes: u64,
    /// Bytes from hosts to the inside.
    pub received_bytes: u64,
    /// Connections and requests that were allowed.
    pub allowed: u64,
    /// Connections and requests that were denied.
    pub denied: u64,
}

/// A denial, with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialView {
    /// When, in seconds since 1970.
    pub time: u64,
    /// The control that refused.
    pub control: String,
    /// The line or built-in rule that decided.
    pub rule: String,
    /// What was refused.
    pub target: String,
    /// Why.
    pub why: String,
    /// How to allow it.
    pub how_to_allow: String,
}
