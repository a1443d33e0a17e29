//! What a meter measures in a sandbox.

use std::time::Duration;

use stockade_policy::Limit;

/// Measures one sandbox. A measurement may take long, so [`Aside`](crate::Aside) calls it in a
/// separate thread.
pub trait Meter: Send + 'static {
    /// Returns what the sandbox uses now.
    fn look(&mut self) -> Look;
}

/// One measurement of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it uses; `None` if that could not be read.
    pub measured: Option<Measurement>,
    /// A limit that the meter itself found exceeded.
    pub exceeded: Option<Limit>,
}

/// What a sandbox uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The tasks, which is the kernel's word for threads. Above the limit the meter may stop early,
    /// and the other numbers then cover only part of the sandbox.
    pub tasks: u64,
    /// Anonymous and shared memory, swapped out or not, without the page cache of files.
    pub memory_bytes: u64,
    /// The CPU time of all running processes and of all reaped ones.
    pub cpu_time: Duration,
}
