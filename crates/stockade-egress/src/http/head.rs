//! Finds the end of a head, and forbidden bytes in it.

/// The longest head, and the most fields in it.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024 - 1;
pub(crate) const MAX_FIELDS: usize = 100;

/// Why a head is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("a line does not end in CR LF")]
    BareLineEnd,
    #[error("the head has a control character")]
    ControlByte,
    #[error("the head is longer than 64 KiB")]
    TooLong,
    #[error("the head has more than 100 fields")]
    TooManyFields,
    #[error("it is not HTTP/1.1 or HTTP/1.0")]
    Version,
    #[error("the head is malformed")]
    Malformed,
    #[error("Content-Length is not one plain number")]
    ContentLength,
    #[error("Transfer-Encoding is not exactly chunked")]
    TransferEncoding,
    #[error("both Content-Length and Transfer-Encoding are given")]
    TwoLengths,
    #[error("there is not exactly one Host field")]
    Host,
    #[error("Host does not equal the authority of the request")]
    OtherHost,
    #[error("the authority is not a host with a plain port: {0}")]
    Authority(String),
    #[error("the request target is not one that a proxy or a server takes here")]
    Target,
    #[error("https is spoken through CONNECT only")]
    Scheme,
    #[error("the method is not one that passes")]
    Method,
    #[error("a field gives another method or path than the request, and these are judged here")]
    Override,
    #[error("Connection names a field that must pass on")]
    Connection,
    #[error("the upgrade to a WebSocket is malformed")]
    Upgrade,
    #[error("the response is to an upgrade that was not requested")]
    UnaskedUpgrade,
}

impl HeadError {
    /// What a program can do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            HeadError::TooLong | HeadError::TooManyFields => "send fewer or shorter fields",
            HeadError::Version => "send HTTP/1.1, or HTTP/2 to a host whose requests are read",
            HeadError::Host | HeadError::OtherHost | HeadError::Authority(_) => {
                "name the host of the connection, once in Host or in the authority"
            }
            HeadError::Target => "send a path that begins with `/`; to the proxy, a whole address",
            HeadError::Scheme => "use CONNECT for https through the proxy",
            HeadError::Method => "use a method of upper-case letters, such as GET",
            HeadError::Override => "leave the field out, and send the method and path themselves",
            HeadError::Upgrade => {
                "ask for the WebSocket with GET over HTTP/1.1, and without a body"
            }
            HeadError::BareLineEnd
            | HeadError::ControlByte
            | HeadError::Malformed
            | HeadError::ContentLength
            | HeadError::TransferEncoding
            | HeadError::TwoLengths
            | HeadError::Connection
            | HeadError::UnaskedUpgrade => "nothing: send the request so that it has one reading",
        }
    }

    /// The status for the client.
    pub(crate) fn status(&self) -> u16 {
        match self {
            HeadError::TooLong | HeadError::TooManyFields => 431,
            HeadError::Version => 505,
            HeadError::Method => 405,
            _ => 400,
        }
    }
}

/// The end of the head, just after its empty line; `None` while it is incomplete. `from` is how
/// much was scanned before, so that slow input costs no more than fast input.
pub(crate) fn head_end(bytes: &[u8], from: usize) -> Result<Option<usize>, HeadError> {
    let start = from.saturating_sub(3).min(bytes.len());
    for (index, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'\n' if index == 0 || bytes[index - 1] != b'\r' => {
                return Err(HeadError::BareLineEnd);
            }
            b'\n' => {
                check_first_line(bytes, index)?;
                if index >= 3 && bytes[index - 3..index] == *b"\r\n\r" {
                    return Ok(Some(index + 1));
                }
            }
            _ if index > 0 && bytes[index - 1] == b'\r' => return Err(HeadError::BareLineEnd),
            b'\r' | b'\t' => {}
            byte if *byte < 0x20 || *byte == 0x7f => return Err(HeadError::ControlByte),
            _ => {}
        }
        if index + 1 >= MAX_HEAD_BYTES {
            return Err(HeadError::TooLong);
        }
    }
    Ok(None)
}

/// Refuses bytes that are not HTTP as soon as the first line is complete: other clients wait for an
/// answer to it.
fn check_first_line(bytes: &[u8], line_end: usize) -> Result<(), HeadError> {
    let line = &bytes[..line_end - 1];
    if line.contains(&b'\n') {
        return Ok(());
    }
    let is_version = |text: &[u8]| matches!(text, b"HTTP/1.1" | b"HTTP/1.0");
    let begins = line.first_chunk::<8>().is_some_and(|text| is_version(text));
    let ends = line.last_chunk::<8>().is_some_and(|text| is_version(text));
    if begins || ends { Ok(()) } else { Err(HeadError::Version) }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
