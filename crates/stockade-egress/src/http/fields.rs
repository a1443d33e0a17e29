//! The fields of a head, and the length of the body that they declare.

use super::head::HeadError;

/// One field, with its name as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
}

impl Field {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// There is no body.
    Nothing,
    /// After so many bytes.
    Bytes(u64),
    /// With an empty chunk.
    Chunks,
    /// With the connection; only for responses.
    UntilClose,
}

/// Hop-by-hop fields, and those for a proxy.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-authentication-info",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
];

/// Fields that `Connection` must not remove: they set where a message goes and where it ends.
const NEVER_DROPPED: [&str; 3] = ["content-length", "transfer-encoding", "host"];

/// Fields that ask for compressed content, or for parts of it: a value could be cut in two.
const ASKS_FOR_OTHER_CONTENT: [&str; 4] =
    ["accept-encoding", "range", "if-range", "sec-websocket-extensions"];

/// Fields that mean something only before a body, RFC 9110 section 6.5.1.
const NOT_IN_TRAILERS: [&str; 12] = [
    "authorization",
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "location",
    "max-forwards",
    "proxy-status",
    "range",
    "set-cookie",
];

/// The fields of a head in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields(pub(crate) Vec<Field>);

impl Fields {
    pub(crate) fn read(headers: &[httparse::Header<'_>]) -> Fields {
        let field = |header: &httparse::Header<'_>| Field {
            name: header.name.to_owned(),
            value: header.value.to_vec(),
        };
        Fields(headers.iter().map(field).collect())
    }

    fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |field| field.is(name)).map(|field| field.value.as_slice())
    }

    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.all(name).next().is_some()
    }

    /// The value of a field that may occur only once.
    pub(crate) fn only(&self, name: &'static str) -> Option<&[u8]> {
        let mut values = self.all(name);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    }

    /// The words of a list field, in lower case.
    pub(crate) fn words(&self, name: &'static str) -> Vec<String> {
        let words = self.all(name).flat_map(|value| value.split(|byte| *byte == b','));
        words.map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase()).collect()
    }

    /// The length of the body by the fields alone; `None` if they do not declare one.
    pub(crate) fn length(&self, minor_version: u8) -> Result<Option<Length>, HeadError> {
        match (self.has("content-length"), self.has("transfer-encoding")) {
            (false, false) => Ok(None),
            (true, true) => Err(HeadError::TwoLengths),
            (true, false) => {
                let value = self.only("content-length").ok_or(HeadError::ContentLength)?;
                plain_number(value).map(|bytes| Some(Length::Bytes(bytes)))
            }
            (false, true) => match self.only("transfer-encoding") {
                Some(value) if minor_version == 1 && value.eq_ignore_ascii_case(b"chunked") => {
                    Ok(Some(Length::Chunks))
                }
                _ => Err(HeadError::TransferEncoding),
            },
        }
    }

    /// Removes hop-by-hop fields.
    pub(crate) fn without_hops(mut self) -> Result<Fields, HeadError> {
        let named = self.words("connection");
        if named.iter().any(|word| NEVER_DROPPED.contains(&word.as_str())) {
            return Err(HeadError::Connection);
        }
        self.0.retain(|field| {
            let name = field.name.to_ascii_lowercase();
            !HOP_BY_HOP.contains(&name.as_str()) && !named.contains(&name)
        });
        Ok(self)
    }

    /// The size of the fields.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|field| field.name.len() + field.value.len() + 4).sum()
    }

    /// Asks for content whole and as it is, so that values in it can be found.
    pub(crate) fn ask_for_plain_content(&mut self) {
        self.0.retain(|field| !ASKS_FOR_OTHER_CONTENT.iter().any(|name| field.is(name)));
        let value = b"identity".to_vec();
        self.0.push(Field { name: "Accept-Encoding".to_owned(), value });
    }

    /// The fields that may follow a body: none that frames, routes or authorises a message.
    pub(crate) fn of_trailer(mut self) -> Fields {
        self.0.retain(|field| {
            let name = field.name.to_ascii_lowercase();
            let is_hop = HOP_BY_HOP.contains(&name.as_str());
            !is_hop
                && !NEVER_DROPPED.contains(&name.as_str())
                && !NOT_IN_TRAILERS.contains(&name.as_str())
        });
        self
    }

    /// Appends the fields to a head that is being written.
    pub(crate) fn write(&self, head: &mut Vec<u8>) {
        for field in &self.0 {
            head.extend_from_slice(field.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(&field.value);
            head.extend_from_slice(b"\r\n");
        }
    }
}

fn plain_number(value: &[u8]) -> Result<u64, HeadError> {
    let plain = !value.is_empty() && value.len() <= 19 && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| plain);
    text.and_then(|text| text.parse().ok()).ok_or(HeadError::ContentLength)
}
