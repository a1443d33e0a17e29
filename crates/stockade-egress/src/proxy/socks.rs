//! SOCKS 5 requests, RFC 1928. Pure: bytes in, meaning out.

use std::net::{Ipv4Addr, Ipv6Addr};

use stockade_policy::Host;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SocksError {
    #[error("the bytes are not SOCKS 5")]
    Malformed,
    #[error("only CONNECT is served, neither BIND nor UDP ASSOCIATE")]
    Command,
    #[error("the kind of address is unknown")]
    AddressKind,
    #[error("the host is not valid: {0}")]
    Host(String),
    #[error("port 0 cannot be connected to")]
    Port,
}

impl SocksError {
    /// The reply code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            SocksError::Malformed => 1,
            SocksError::Host(_) | SocksError::Port => 2,
            SocksError::Command => 7,
            SocksError::AddressKind => 8,
        }
    }
}

/// The greeting of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Whether it accepts no authentication; the proxy offers nothing else.
    pub(crate) without_authentication: bool,
    /// Its length in bytes.
    pub(crate) bytes: usize,
}

/// The destination that a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocksRequest {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// Its length in bytes.
    pub(crate) bytes: usize,
}

/// Parses a greeting; `None` if it is incomplete.
pub(crate) fn read_greeting(bytes: &[u8]) -> Result<Option<Greeting>, SocksError> {
    match bytes {
        [5, 0, ..] => Err(SocksError::Malformed),
        [5, count, rest @ ..] => {
            let count = usize::from(*count);
            Ok(rest.get(..count).map(|methods| Greeting {
                without_authentication: methods.contains(&0),
                bytes: 2 + count,
            }))
        }
        [] | [5] => Ok(None),
        _ => Err(SocksError::Malformed),
    }
}

/// Parses a request; `None` if it is incomplete.
pub(crate) fn read_request(bytes: &[u8]) -> Result<Option<SocksRequest>, SocksError> {
    if bytes.first().is_some_and(|version| *version != 5)
        || bytes.get(2).is_some_and(|reserved| *reserved != 0)
    {
        return Err(SocksError::Malformed);
    }
    if bytes.get(1).is_some_and(|command| *command != 1) {
        return Err(SocksError::Command);
    }
    let Some(kind) = bytes.get(3) else {
        return Ok(None);
    };
    let (start, length) = match kind {
        1 => (4, 4),
        3 => match bytes.get(4) {
            Some(length) => (5, usize::from(*length)),
            None => return Ok(None),
        },
        4 => (4, 16),
        _ => return Err(SocksError::AddressKind),
    };
    let end = start + length;
    let (Some(address), Some(port)) = (bytes.get(start..end), bytes.get(end..end + 2)) else {
        return Ok(None);
    };
    let host = host(*kind, address)?;
    match u16::from_be_bytes([port[0], port[1]]) {
        0 => Err(SocksError::Port),
        port => Ok(Some(SocksRequest { host, port, bytes: end + 2 })),
    }
}

fn host(kind: u8, address: &[u8]) -> Result<Host, SocksError> {
    if kind == 3 {
        return Host::parse_bytes(address).map_err(|error| SocksError::Host(error.to_string()));
    }
    let v4 = <[u8; 4]>::try_from(address).map(Ipv4Addr::from);
    let v6 = <[u8; 16]>::try_from(address).map(Ipv6Addr::from);
    match (v4, v6) {
        (Ok(address), _) => Ok(Host::Address(address.into())),
        (_, Ok(address)) => Ok(Host::Address(address.into())),
        (Err(_), Err(_)) => Err(SocksError::Malformed),
    }
}

#[cfg(test)]
#[path = "socks_tests.rs"]
mod tests;
