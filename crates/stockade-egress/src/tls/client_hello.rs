//! The first message of a TLS client, in any segmentation.

/// The longest ClientHello, and the most records it may come in.
const MAX_HELLO_BYTES: usize = 48 * 1024;
const MAX_RECORDS: usize = 1024;
/// The longest plain record, RFC 8446 section 5.1.
const MAX_RECORD_BYTES: usize = 1 << 14;

/// The destination in a ClientHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The name in the extension `server_name`, as sent.
    pub(crate) server_name: Option<Vec<u8>>,
}

/// Why bytes are not a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HelloError {
    #[error("the first bytes are not those of TLS")]
    NotTls,
    #[error("the ClientHello is malformed")]
    Malformed,
    #[error("the ClientHello is too long or comes in too many pieces")]
    TooLong,
    #[error("the ClientHello has an extension twice")]
    Duplicate,
    #[error("the ClientHello has more than one server name")]
    SeveralNames,
}

/// Parses a ClientHello incrementally. Each call receives all bytes since the first one.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    position: usize,
    records: usize,
    handshake: Vec<u8>,
}

impl HelloReader {
    /// The message once it is complete, else `None`.
    pub(crate) fn read(&mut self, all: &[u8]) -> Result<Option<ClientHello>, HelloError> {
        loop {
            if let Some(message) = self.message()? {
                return parse(message).map(Some);
            }
            let rest = all.get(self.position..).unwrap_or_default();
            let Some((header, body)) = rest.split_first_chunk::<5>() else {
                return check_start(rest).map(|()| None);
            };
            check_start(header)?;
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if length == 0 || length > MAX_RECORD_BYTES {
                return Err(HelloError::Malformed);
            }
            let Some(fragment) = body.get(..length) else {
                return Ok(None);
            };
            self.records += 1;
            if self.records > MAX_RECORDS || self.handshake.len() + length > MAX_HELLO_BYTES {
                return Err(HelloError::TooLong);
            }
            self.handshake.extend_from_slice(fragment);
            self.position += 5 + length;
        }
    }

    /// The body of the handshake message, if it is complete.
    fn message(&self) -> Result<Option<&[u8]>, HelloError> {
        let Some(kind) = self.handshake.first() else {
            return Ok(None);
        };
        // Type 1 is a ClientHello.
        if *kind != 1 {
            return Err(HelloError::Malformed);
        }
        let Some((&[_, high, middle, low], body)) = self.handshake.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if length > MAX_HELLO_BYTES {
            return Err(HelloError::TooLong);
        }
        match body.len() {
            held if held < length => Ok(None),
            held if held == length => Ok(Some(body)),
            // Nothing may share a record with the first message.
            _ => Err(HelloError::Malformed),
        }
    }
}

/// Whether bytes can start a handshake record: its type, and a version of 3.1 to 3.4.
fn check_start(bytes: &[u8]) -> Result<(), HelloError> {
    let fits = |index: usize, range: std::ops::RangeInclusive<u8>| {
        bytes.get(index).is_none_or(|byte| range.contains(byte))
    };
    if fits(0, 22..=22) && fits(1, 3..=3) && fits(2, 1..=4) {
        Ok(())
    } else {
        Err(HelloError::NotTls)
    }
}

/// Parses the body of a ClientHello, RFC 8446 section 4.1.2.
fn parse(body: &[u8]) -> Result<ClientHello, HelloError> {
    let mut rest = Cursor(body);
    let version = rest.take(2)?;
    if version[0] != 3 || version[1] == 0 {
        return Err(HelloError::Malformed);
    }
    rest.take(32)?;
    if rest.vector_u8()?.len() > 32 {
        return Err(HelloError::Malformed);
    }
    let suites = rest.vector_u16()?;
    let compressions = rest.vector_u8()?;
    if suites.is_empty() || suites.len() % 2 != 0 || compressions.is_empty() {
        return Err(HelloError::Malformed);
    }
    if rest.0.is_empty() {
        return Ok(ClientHello { server_name: None });
    }
    let mut extensions = Cursor(rest.vector_u16()?);
    rest.end()?;
    let mut seen = Vec::new();
    let mut server_name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.vector_u16()?;
        if seen.contains(&kind) {
            return Err(HelloError::Duplicate);
        }
        // A client has a few dozen; the search for duplicates would be slow with many.
        if seen.len() >= 256 {
            return Err(HelloError::TooLong);
        }
        seen.push(kind);
        if kind == 0 {
            server_name = Some(parse_server_name(content)?);
        }
    }
    Ok(ClientHello { server_name })
}

/// Parses the extension `server_name`, RFC 6066 section 3: exactly one host name.
fn parse_server_name(content: &[u8]) -> Result<Vec<u8>, HelloError> {
    let mut rest = Cursor(content);
    let mut names = Cursor(rest.vector_u16()?);
    rest.end()?;
    if names.take(1)? != [0] {
        return Err(HelloError::Malformed);
    }
    let name = names.vector_u16()?;
    if name.is_empty() {
        return Err(HelloError::Malformed);
    }
    names.end().map_err(|_| HelloError::SeveralNames)?;
    Ok(name.to_vec())
}

/// A cursor over bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, HelloError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector_u8(&mut self) -> Result<&'a [u8], HelloError> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length)
    }

    fn vector_u16(&mut self) -> Result<&'a [u8], HelloError> {
        let length = usize::from(self.u16()?);
        self.take(length)
    }

    fn end(&self) -> Result<(), HelloError> {
        if self.0.is_empty() { Ok(()) } else { Err(HelloError::Malformed) }
    }
}

#[cfg(test)]
#[path = "client_hello_tests.rs"]
mod tests;
