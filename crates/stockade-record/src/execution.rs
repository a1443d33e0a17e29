//! One program of a session: the policy's answer, its start, what it met, its end.

use serde::{Deserialize, Serialize};
use stockade_policy::{Denial, Effect};

/// What the policy says to a program before it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictGiven {
    /// Whose; missing where it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// What was decided.
    pub verdict: Effect,
    /// The control that decided.
    pub control: String,
    /// The line or fixed rule that decided.
    pub rule: String,
    /// What was judged.
    pub target: String,
    /// Why.
    pub why: String,
    /// The refusal, word for word as the caller sees it.
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
    /// The wall's strength.
    pub isolation: String,
}

/// A limit that refused something without ending the program, or ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitHit {
    /// Whose; missing where it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The key of the limit in a policy.
    pub limit: String,
    /// Whether the program was ended over it.
    pub ended: bool,
}

/// Something that the wall refused, and that the program may have gone on without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// Whose; missing where it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The refusal, word for word as the caller sees it.
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
    /// The number of the signal it died of.
    pub signal: Option<i32>,
    /// Why Stockade could not run it, for an `error`.
    pub error: Option<String>,
    /// From the start of the program to its end, in milliseconds.
    pub duration_ms: u64,
    /// What it used.
    pub usage: UsageCounts,
    /// What it printed.
    pub stdout: OutputCounts,
    /// What it printed as errors.
    pub stderr: OutputCounts,
}

/// What a program used. `None` is what the kernel does not say here.
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

/// How much of a stream was kept, and how much dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputCounts {
    /// Bytes kept.
    pub kept_bytes: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
}
