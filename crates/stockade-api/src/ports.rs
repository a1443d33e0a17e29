//! Ports inside, forwarded to loopback ports of the host.

use serde::{Deserialize, Serialize};

/// A request about forwarded ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PortParams {
    /// Forward a port. A port that is forwarded already keeps its address, unless another one is
    /// asked for. Answered with [`crate::Reply::Ports`], which has only this one.
    Open {
        /// The port inside, at 127.0.0.1 or ::1.
        port: u16,
        /// The address on the host, such as `127.0.0.1:8000`; `None` is a free port of 127.0.0.1.
        listen: Option<String>,
    },
    /// Stop forwarding a port, and close its connections.
    Close {
        /// The port inside.
        port: u16,
    },
    /// List the forwarded ports.
    List,
}

/// A forwarded port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortView {
    /// The port inside.
    pub port: u16,
    /// The address on the host.
    pub address: String,
    /// How many connections are open.
    pub open: u64,
    /// How many connections were relayed so far.
    pub connections: u64,
    /// How many connections were refused: those of other users, and those over the limit.
    pub refused: u64,
}
