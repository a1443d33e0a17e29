//! The head of a response.

use super::fields::{Fields, Length};
use super::head::{HeadError, MAX_FIELDS};

/// A response with a known end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) length: Length,
    /// The server agreed to a WebSocket.
    pub(crate) is_websocket: bool,
    /// The server accepts no further request.
    pub(crate) is_last: bool,
    /// The forwarded fields, without hop-by-hop fields.
    pub(crate) fields: Fields,
}

/// The request that a response answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) head_only: bool,
    pub(crate) websocket: bool,
}

/// Parses a whole head.
pub(crate) fn parse_response(bytes: &[u8], asked: Asked) -> Result<ResponseHead, HeadError> {
    let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut storage);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(HeadError::Malformed),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyFields),
        Err(httparse::Error::Version) => return Err(HeadError::Version),
        Err(_) => return Err(HeadError::Malformed),
    }
    let (Some(status), Some(minor_version)) = (response.code, response.version) else {
        return Err(HeadError::Malformed);
    };
    if !(100..=599).contains(&status) || !bytes.starts_with(b"HTTP/") {
        return Err(HeadError::Malformed);
    }
    let fields = Fields::read(response.headers);
    let connection = fields.words("connection");
    let by_fields = fields.length(minor_version)?;
    let is_websocket = status == 101;
    if is_websocket && !(asked.websocket && fields.words("upgrade") == ["websocket"]) {
        return Err(HeadError::UnaskedUpgrade);
    }
    let has_no_body = asked.head_only || matches!(status, 100..=199 | 204 | 304);
    let length = match by_fields {
        _ if has_no_body => Length::Nothing,
        Some(length) => length,
        None => Length::UntilClose,
    };
    let keeps = minor_version == 1 || connection.iter().any(|word| word == "keep-alive");
    let closes = connection.iter().any(|word| word == "close") || length == Length::UntilClose;
    let reason = response.reason.unwrap_or_default().to_owned();
    let fields = fields.without_hops()?;
    Ok(ResponseHead { status, reason, length, is_websocket, is_last: !keeps || closes, fields })
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
