//! The head of a request.

use stockade_policy::{Host, Method, parse_host_port};

use super::fields::{Fields, Length};
use super::head::{HeadError, MAX_FIELDS};

/// A request with exactly one interpretation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) aim: RequestTarget,
    pub(crate) minor_version: u8,
    pub(crate) length: Length,
    /// The program requested a WebSocket.
    pub(crate) wants_websocket: bool,
    /// The program will not send another request.
    pub(crate) is_last: bool,
    /// The forwarded fields: no hop-by-hop fields, no Host.
    pub(crate) fields: Fields,
}

impl RequestHead {
    /// Whether the request is idempotent and complete, so that it can be sent again.
    pub(crate) fn can_be_repeated(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
            && self.length == Length::Nothing
            && !self.wants_websocket
    }
}

/// The target of a request. The host is that of the target or, if the target has none, of Host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    /// A tunnel through a proxy.
    Tunnel { host: Host, port: u16 },
    /// A resource with its authority, for a proxy.
    Absolute { host: Host, port: u16, path: String },
    /// A resource of the dialled server.
    Origin { host: Host, port: Option<u16>, path: String },
}

/// Parses a whole head.
pub(crate) fn parse_request(bytes: &[u8]) -> Result<RequestHead, HeadError> {
    let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut storage);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(HeadError::Malformed),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
        Err(httparse::Error::Version) => return Err(HeadError::Version),
        Err(_) => return Err(HeadError::Malformed),
    }
    let (Some(method), Some(target), Some(minor_version)) =
        (request.method, request.path, request.version)
    else {
        return Err(HeadError::Malformed);
    };
    // The library skips empty lines before a request; another parser may not.
    if !bytes.starts_with(method.as_bytes()) {
        return Err(HeadError::Malformed);
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains(['#', '\\']) {
        return Err(HeadError::Target);
    }
    let fields = Fields::read(request.headers);
    let named = match fields.only("host") {
        Some(value) => {
            let text = std::str::from_utf8(value).map_err(|_| HeadError::Host)?;
            Some(authority(text)?)
        }
        // The target of a CONNECT is an authority, and some programs send no Host.
        None if method == "CONNECT" && !fields.has("host") => None,
        None => return Err(HeadError::Host),
    };
    let aim = aim(method, target, named)?;
    if method != "CONNECT" && Method::parse(method).is_err() {
        return Err(HeadError::Method);
    }
    let length = fields.length(minor_version)?.unwrap_or(Length::Nothing);
    let connection = fields.words("connection");
    let wants_websocket = wants_websocket(method, &fields, &connection, minor_version, length)?;
    let is_last = minor_version == 0 || connection.iter().any(|word| word == "close");
    let mut passed = fields.without_hops()?;
    passed.0.retain(|field| !field.is("host"));
    Ok(RequestHead {
        method: method.to_owned(),
        aim,
        minor_version,
        length,
        wants_websocket,
        is_last,
        fields: passed,
    })
}

fn aim(
    method: &str,
    target: &str,
    named: Option<(Host, Option<u16>)>,
) -> Result<RequestTarget, HeadError> {
    if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or_else(|| HeadError::Authority("it has no port".to_owned()))?;
        // Programs write the Host of a CONNECT with or without the port.
        let is_same = |(named, named_port): (Host, Option<u16>)| {
            named == host && named_port.is_none_or(|named| named == port)
        };
        return match named.is_none_or(is_same) {
            true => Ok(RequestTarget::Tunnel { host, port }),
            false => Err(HeadError::OtherHost),
        };
    }
    let (named, named_port) = named.ok_or(HeadError::Host)?;
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok(RequestTarget::Origin {
            host: named,
            port: named_port,
            path: target.to_owned(),
        });
    }
    let (scheme, rest) = target.split_once("://").ok_or(HeadError::Target)?;
    if scheme.eq_ignore_ascii_case("https") {
        return Err(HeadError::Scheme);
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(HeadError::Target);
    }
    let (text, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = authority(text)?;
    let port = port.unwrap_or(80);
    if named != host || named_port.unwrap_or(80) != port {
        return Err(HeadError::OtherHost);
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(RequestTarget::Absolute { host, port, path })
}

fn authority(text: &str) -> Result<(Host, Option<u16>), HeadError> {
    parse_host_port(text).map_err(|error| HeadError::Authority(error.to_string()))
}

/// Whether the request asks for a WebSocket. Other upgrades are ignored, as a server may do.
fn wants_websocket(
    method: &str,
    fields: &Fields,
    connection: &[String],
    minor_version: u8,
    length: Length,
) -> Result<bool, HeadError> {
    let upgrades = fields.words("upgrade");
    if !upgrades.iter().any(|word| word == "websocket") {
        return Ok(false);
    }
    let is_plain = method == "GET"
        && minor_version == 1
        && upgrades.len() == 1
        && connection.iter().any(|word| word == "upgrade")
        && matches!(length, Length::Nothing | Length::Bytes(0));
    if is_plain { Ok(true) } else { Err(HeadError::Upgrade) }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
