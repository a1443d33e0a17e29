//! Encodes an event as one line of text, and decodes it.
//!
//! ```text
//! {"sequence":1,"time":"…","session":"…","kind":"…","body":{…},"previous":"…","hash":"…"}
//! └──────────────────────────── what the hash covers ────────────────────────┘
//! ```
//! An event has exactly one encoding. A line that spells the same event differently is refused.

use std::fmt;
use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::ser::{CharEscape, Formatter};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use stockade_policy::is_harmless;

use crate::shorten::shortened;
use crate::{Body, Event, SessionId, Time};

/// The longest line, including its line feed. Longer events are shortened, and longer lines are not
/// read.
pub const MAX_LINE_BYTES: usize = 16 << 10;

/// The separator between the covered part of a line and its hash.
const BEFORE_HASH: &str = ",\"hash\":\"";
const AFTER_HASH: &str = "\"}\n";
const HASH_CHARACTERS: usize = 64;
const TAIL_BYTES: usize = BEFORE_HASH.len() + HASH_CHARACTERS + AFTER_HASH.len();

/// A SHA-256, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The previous hash of the first event.
    pub const ZERO: Digest = Digest([0; 32]);

    /// The hash of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// A hash that was computed incrementally.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    fn parse(text: &str) -> Option<Digest> {
        let digits = text.as_bytes();
        if digits.len() != HASH_CHARACTERS {
            return None;
        }
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::parse(&text)
            .ok_or_else(|| de::Error::custom("a hash has 64 lower-case hexadecimal digits"))
    }
}

/// Why a line is not an event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It does not end with a hash.
    #[error("the line does not end with its hash")]
    NoHash,
    /// The hash does not match the line's content.
    #[error("the hash does not belong to the content: one of the two was changed")]
    WrongHash,
    /// It is not an event of this version.
    #[error("the line is no event that this version knows")]
    Unknown(#[source] serde_json::Error),
    /// It is an event in another spelling than the canonical one.
    #[error("the line is not written as Stockade writes it")]
    OtherSpelling,
}

/// Encodes an event as a line with its line feed, and returns its hash. Shortens texts that are too
/// long for a line.
pub fn encode(event: &Event) -> (Vec<u8>, Digest) {
    let mut line = covered(event, &event.body);
    if line.len() + TAIL_BYTES > MAX_LINE_BYTES {
        let fits = |body: &Body| covered(event, body).len() + TAIL_BYTES <= MAX_LINE_BYTES;
        line = covered(event, &shortened(&event.body, fits));
    }
    let hash = Digest::of(&line);
    line.extend(format!("{BEFORE_HASH}{hash}{AFTER_HASH}").bytes());
    (line, hash)
}

/// Decodes a line with its line feed, checks its hash, and returns both.
pub fn decode(line: &[u8]) -> Result<(Event, Digest), LineError> {
    let (content, tail) =
        line.split_at_checked(line.len().saturating_sub(TAIL_BYTES)).ok_or(LineError::NoHash)?;
    let digits = std::str::from_utf8(tail)
        .ok()
        .and_then(|tail| tail.strip_prefix(BEFORE_HASH)?.strip_suffix(AFTER_HASH));
    let hash = digits.and_then(Digest::parse).ok_or(LineError::NoHash)?;
    if Digest::of(content) != hash {
        return Err(LineError::WrongHash);
    }
    let read: LineText = serde_json::from_slice(line).map_err(LineError::Unknown)?;
    let mut tagged = Map::new();
    tagged.insert("kind".to_owned(), Value::String(read.kind));
    tagged.insert("body".to_owned(), read.body);
    let body = serde_json::from_value(Value::Object(tagged)).map_err(LineError::Unknown)?;
    let LineText { sequence, time, session, previous, .. } = read;
    let event = Event { sequence, time, session, body, previous };
    match encode(&event).0 == line {
        true => Ok((event, hash)),
        false => Err(LineError::OtherSpelling),
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LineView::of(self, &self.body).serialize(serializer)
    }
}

/// The JSON structure of a line for reading.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineText {
    sequence: u64,
    time: Time,
    session: SessionId,
    kind: String,
    body: Value,
    previous: Digest,
    #[serde(rename = "hash")]
    _hash: Digest,
}

/// The JSON structure of a line for writing, without its hash.
#[derive(Serialize)]
struct LineView<'e> {
    sequence: u64,
    time: Time,
    session: &'e SessionId,
    #[serde(flatten)]
    body: &'e Body,
    previous: Digest,
}

impl<'e> LineView<'e> {
    fn of(event: &'e Event, body: &'e Body) -> LineView<'e> {
        let Event { sequence, time, session, previous, .. } = event;
        LineView { sequence: *sequence, time: *time, session, body, previous: *previous }
    }
}

/// The part of a line that the hash covers: the object without its closing brace.
fn covered(event: &Event, body: &Body) -> Vec<u8> {
    let view = LineView::of(event, body);
    let mut line = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::with_formatter(&mut line, Plain);
    view.serialize(&mut serializer).expect("an event is plain values, and memory takes every byte");
    line.pop();
    line
}

/// Compact JSON that escapes every character which moves or hides text, so that an event is one
/// line wherever it is displayed.
struct Plain;

impl Formatter for Plain {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut begun = 0;
        for (at, character) in fragment.char_indices().filter(|(_, it)| !is_harmless(*it)) {
            writer.write_all(&fragment.as_bytes()[begun..at])?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            begun = at + character.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[begun..])
    }

    fn write_char_escape<W>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
