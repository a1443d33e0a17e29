//! What a sandbox and an execution use.

use std::collections::BTreeSet;
use std::time::Duration;

use stockade_policy::{Denial, Limit};

/// What a whole sandbox used and met, from the kernel. `None` is what the kernel does not count here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxUsage {
    /// Processor time used.
    pub cpu_time: Option<Duration>,
    /// The most memory used at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks alive at once, Stockade's own among them.
    pub tasks_peak: Option<u64>,
    /// Processes killed because memory ran out.
    pub oom_kills: u64,
    /// Limits that refused something; memory is left to the count above.
    pub limits_hit: BTreeSet<Limit>,
    /// What the wall refused and can name.
    pub denials: Vec<Denial>,
}

/// What one execution used. `None` is what is not counted apart from its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionUsage {
    /// Processor time used.
    pub cpu_time: Option<Duration>,
    /// The most memory used at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks alive at once.
    pub tasks_peak: Option<u64>,
}
