//! What is measured of a sandbox.

use std::time::Duration;

use stockade_policy::Limit;

/// Measures one sandbox. A look may take long, so [`Aside`](crate::Aside) calls it in a thread of
/// its own.
pub trait Meter: Send + 'static {
    /// What the sandbox uses now.
    fn look(&mut self) -> Look;
}

/// One look at a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it uses; `None` where that could not be read.
    pub measured: Option<Measurement>,
    /// A limit that the meter itself found to be passed.
    pub exceeded: Option<Limit>,
}

/// What a sandbox uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The tasks, as the kernel calls threads. When there are more than allowed the look may have
    /// ended early: the other numbers then are those of a part.
    pub tasks: u64,
    /// Memory of its own: what is neither the content of a file nor free, swapped out or not.
    pub memory_bytes: u64,
    /// The cpu time of everything that runs and of everything that was waited for.
    pub cpu_time: Duration,
}
