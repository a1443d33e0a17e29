//! The resources that a sandbox and an execution use.

use std::collections::BTreeSet;
use std::time::Duration;

use stockade_policy::{Denial, Limit};

/// What a whole sandbox used and which limits it reached, from the kernel. `None` if the kernel
/// does not count a value here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxUsage {
    /// Processor time used.
    pub cpu_time: Option<Duration>,
    /// The memory in use now, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most memory used at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks alive at once, including Stockade's own.
    pub tasks_peak: Option<u64>,
    /// Processes killed because memory ran out.
    pub oom_kills: u64,
    /// Limits that refused something, except memory, which `oom_kills` covers.
    pub limits_hit: BTreeSet<Limit>,
    /// Denials by the wall that it can name.
    pub denials: Vec<Denial>,
}

/// What one execution used. `None` if a value is not counted separately from its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionUsage {
    /// Processor time used.
    pub cpu_time: Option<Duration>,
    /// The most memory used at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks alive at once.
    pub tasks_peak: Option<u64>,
    /// Its processes that the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// Limits that refused something to it, except memory, which `oom_kills` covers.
    pub limits_hit: BTreeSet<Limit>,
    /// Denials by the wall of what it tried.
    pub denials: Vec<Denial>,
}

/// A request to the network that a wall's own gate decided, and not the gate on this host. Every
/// text comes from outside and is bounded, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedRequest {
    /// The host.
    pub host: String,
    /// The method, if the gate saw one.
    pub method: Option<String>,
    /// The path without its query, if the gate saw one.
    pub path: Option<String>,
    /// The scheme, if the gate saw one.
    pub scheme: Option<String>,
    /// When it was decided, as the gate writes it.
    pub at: Option<String>,
    /// Whether it was allowed.
    pub allowed: bool,
}
