//! What the wall decides about a link.

use std::time::Duration;

use stockade_wire::Heartbeat;

/// What the wall decides about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The most executions at once. One more is refused by name.
    pub executions: usize,
    /// Whether both ends send beats.
    pub liveness: Liveness,
}

/// How each end learns that the other is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// The stream ends. Right where the kernel closes the stream with either process: a host that is
    /// stopped or starved then loses no sandbox, however long that takes.
    EndOfStream,
    /// Beats as well, for a stream that something between the two ends keeps open.
    Beats {
        /// The interval.
        every: Duration,
        /// How many intervals in a row may pass in silence; one more ends the sandbox.
        missed: u32,
    },
}

impl Liveness {
    /// Beats for a stream through another process or machine: a minute of silence ends the sandbox,
    /// counted in intervals during which both ends could run.
    pub const PUMPED: Liveness = Liveness::Beats { every: Duration::from_secs(5), missed: 12 };

    pub(super) fn heartbeat(self) -> Option<Heartbeat> {
        match self {
            Liveness::EndOfStream => None,
            Liveness::Beats { every, missed } => {
                let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(1);
                Some(Heartbeat { every_ms, missed })
            }
        }
    }
}
