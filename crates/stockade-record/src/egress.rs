//! What happened to one connection or request on its way out.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use stockade_policy::{Denial, Effect};

/// One decision of the gate, told when its connection or request has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Whose; missing where it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The number of the connection in its session; requests of a kept connection share it.
    pub connection: u64,
    /// The way it came.
    pub via: Via,
    /// The canonical host, or what was asked for where that is none: bounded, without control
    /// characters.
    pub host: String,
    /// The port, where one was named.
    pub port: Option<u16>,
    /// The address that was dialled.
    pub address: Option<IpAddr>,
    /// The method of a request that could be read.
    pub method: Option<String>,
    /// Its path without the query, which may hold secrets.
    pub path: Option<String>,
    /// The status of its answer; for a denial the one that Stockade gave.
    pub status: Option<u16>,
    /// How much of the conversation was looked at.
    pub inspection: Inspection,
    /// Bytes from inside to the host.
    pub sent_bytes: u64,
    /// Bytes from the host to the inside.
    pub received_bytes: u64,
    /// From the first byte to the end, in milliseconds.
    pub duration_ms: u64,
    /// What was decided.
    pub verdict: Effect,
    /// The line or fixed rule that decided.
    pub rule: String,
    /// The refusal, word for word as the program saw it.
    pub denial: Option<Denial>,
    /// Why an allowed connection came to nothing, such as a name that does not resolve.
    pub failure: Option<String>,
}

/// The way a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A question to the name server inside.
    Dns,
    /// An address that stands for a name.
    Transparent,
    /// A plain request to the proxy.
    Http,
    /// A tunnel through the proxy.
    Connect,
    /// SOCKS.
    Socks,
}

/// How much of a conversation was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inspection {
    /// Nothing but the target.
    None,
    /// The server name that a TLS client sent in the clear.
    ServerName,
    /// Every request.
    Requests,
}
