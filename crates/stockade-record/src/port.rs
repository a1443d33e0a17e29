//! The event of a forwarded port.

use serde::{Deserialize, Serialize};
use stockade_policy::Denial;

use crate::shorten::cut_text;

/// Something that happened to a forwarded port, or to one of its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortEvent {
    /// [`PortEvent::OPENED`] and the others.
    pub act: String,
    /// The port inside.
    pub port: u16,
    /// The address on the host; `None` if the port was never forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The address of the other end of a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The user of the other end, if the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Bytes from the host to the server.
    pub sent_bytes: u64,
    /// Bytes from the server to the host.
    pub received_bytes: u64,
    /// How long a connection was open.
    pub duration_ms: u64,
    /// Why it was refused, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The denial, if the policy refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
}

impl PortEvent {
    /// The port is forwarded from now on.
    pub const OPENED: &str = "opened";

    /// The port is no longer forwarded.
    pub const CLOSED: &str = "closed";

    /// The policy refused to forward the port.
    pub const DENIED: &str = "denied";

    /// A connection has ended.
    pub const CONNECTION: &str = "connection";

    /// A connection was refused.
    pub const REFUSED: &str = "refused";

    /// The maximum size of a reason.
    pub const MAX_WHY_BYTES: usize = 1024;

    /// An event without a connection.
    pub fn of(act: &str, port: u16) -> PortEvent {
        PortEvent {
            act: act.to_owned(),
            port,
            address: None,
            peer: None,
            user: None,
            sent_bytes: 0,
            received_bytes: 0,
            duration_ms: 0,
            why: None,
            denial: None,
        }
    }

    /// Cuts the reason to this limit.
    #[must_use]
    pub fn bounded(mut self) -> PortEvent {
        if let Some(why) = &mut self.why {
            cut_text(why, PortEvent::MAX_WHY_BYTES);
        }
        self
    }
}
