//! The event of one outgoing connection or request.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use stockade_policy::{Denial, Effect};

/// One decision of the gate, recorded when its connection or request has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// The execution; `None` if it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The number of the connection in its session; requests of a kept connection share it.
    pub connection: u64,
    /// How it reached the gate.
    pub via: Via,
    /// The canonical host, or the requested text if it is not a valid host: bounded, without
    /// control characters.
    pub host: String,
    /// The port, if one was named.
    pub port: Option<u16>,
    /// The address that was dialled.
    pub address: Option<IpAddr>,
    /// The method of a parsed request.
    pub method: Option<String>,
    /// Its path without the query, which may contain secrets.
    pub path: Option<String>,
    /// The status of its response; for a denial, the status that Stockade sent.
    pub status: Option<u16>,
    /// How much of the connection was inspected.
    pub inspection: Inspection,
    /// Bytes from inside to the host.
    pub sent_bytes: u64,
    /// Bytes from the host to the inside.
    pub received_bytes: u64,
    /// From the first byte to the end, in milliseconds.
    pub duration_ms: u64,
    /// What was decided.
    pub verdict: Effect,
    /// The policy line or fixed rule that decided.
    pub rule: String,
    /// The denial, exactly as the program saw it.
    pub denial: Option<Denial>,
    /// Why an allowed connection failed, such as a name that does not resolve.
    pub failure: Option<String>,
    /// Secrets that were sent, misplaced or sent back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
}

/// How a connection reached the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A query to the name server inside.
    Dns,
    /// A connection to a synthetic address of a name.
    Transparent,
    /// A plain request to the proxy.
    Http,
    /// A tunnel through the proxy.
    Connect,
    /// SOCKS.
    Socks,
}

/// How much of a connection was inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inspection {
    /// Only the target.
    None,
    /// The server name that a TLS client sent unencrypted.
    ServerName,
    /// Every request, of a connection without TLS or of one request that the wall makes.
    Requests,
    /// Every request, of a connection whose TLS ended at the gate.
    Opened,
}

/// What happened to a secret on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretUse {
    /// The secret's name.
    pub name: String,
    /// What happened.
    pub act: SecretAct,
}

/// The ways in which a secret is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretAct {
    /// The value was sent in its place, to a bound host.
    Sent,
    /// The placeholder was anywhere else: an alarm, and a denial.
    Misplaced,
    /// The program sent a credential of its own in the secret's header, and the gate dropped it.
    Dropped,
    /// The server sent the value back, and the gate redacted it.
    Echoed,
}
