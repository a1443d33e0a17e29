//! The settings of a link, which the wall chooses.

use std::time::Duration;

use stockade_wire::Heartbeat;

/// The settings of a link, which the wall chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The maximum number of concurrent executions. The link refuses more.
    pub executions: usize,
    /// Whether both ends send beats.
    pub liveness: Liveness,
}

/// How each end detects that the other is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// By the end of the stream. Sufficient if the kernel closes the stream with either process: a
    /// stopped or starved host then never loses its sandbox.
    EndOfStream,
    /// Also by beats, for a stream that an intermediary keeps open.
    Beats {
        /// The interval.
        every: Duration,
        /// How many silent intervals in a row are allowed; one more ends the sandbox.
        missed: u32,
    },
}

impl Liveness {
    /// For a stream through another process or machine: a minute of silence ends the sandbox,
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
