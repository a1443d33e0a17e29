//! What the guest says first on a stream that it opens.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// The first frame on a stream that the guest opens; raw bytes follow it, both ways.
///
/// The guest decides nothing: it says where a program's bytes came in, and the host does the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Opening {
    /// Questions to the name server inside, as over TCP: a length of two bytes, big endian, then
    /// a message. Answers come back in the same form and in the order of the questions.
    Names,
    /// A connection to an address that stands for a name.
    Connection {
        /// The address that was dialled.
        address: Ipv4Addr,
        /// The port that was dialled.
        port: u16,
    },
    /// A connection to the proxy inside. Whether HTTP or SOCKS is spoken, its bytes say.
    Proxy,
}
