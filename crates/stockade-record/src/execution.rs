//! One program of a session: the policy's decision, its start, limits, denials, and its end.

use serde::{Deserialize, Serialize};
use stockade_policy::{Denial, Effect};

use crate::Command;

/// The policy's decision about a program before it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictGiven {
    /// The execution; `None` if it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// What was decided.
    pub verdict: Effect,
    /// The control that decided.
    pub control: String,
    /// The policy line or fixed rule that decided.
    pub rule: String,
    /// What was judged.
    pub target: String,
    /// Why.
    pub why: String,
    /// The denial, exactly as the caller sees it.
    pub denial: Option<Denial>,
}

/// A program is about to start. Written before the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionStarted {
    /// Its number in the session, from zero.
    pub execution: u64,
    /// The wall.
    pub provider: String,
    /// The wall's isolation level.
    pub isolation: String,
    /// The program; `None` if the session's first event has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// The names of the variables that the caller set for this program alone; no record has their
    /// values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

/// A limit that refused something without ending the program, or ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitHit {
    /// The execution; `None` if it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The key of the limit in a policy.
    pub limit: String,
    /// Whether Stockade ended the program because of it.
    pub ended: bool,
}

/// A denial by the wall; the program may have continued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// The execution; `None` if it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The denial, exactly as the caller sees it.
    pub denial: Denial,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionEnded {
    /// Its number in the session, from zero.
    pub execution: u64,
    /// The outcome in one word, or `error`.
    pub outcome: String,
    /// Its own exit code.
    pub exit_code: Option<i32>,
    /// The number of the signal that killed it.
    pub signal: Option<i32>,
    /// Why Stockade could not run it, for an `error`.
    pub error: Option<String>,
    /// From the start of the program to its end, in milliseconds.
    pub duration_ms: u64,
    /// The resources it used.
    pub usage: UsageCounts,
    /// The size of its standard output.
    pub stdout: OutputCounts,
    /// The size of its standard error.
    pub stderr: OutputCounts,
}

/// The resources that a program used. `None` if this host's kernel does not report a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageCounts {
    /// Processor time in milliseconds.
    pub cpu_ms: Option<u64>,
    /// The most memory at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks at once.
    pub tasks_peak: Option<u64>,
}

/// How much of a stream was kept, and how much was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputCounts {
    /// Bytes kept.
    pub kept_bytes: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
}
