//! The ways to read bytes that a server sends back: as they are, escaped for URLs, for JSON, and as
//! HTML. In each reading a value is searched for as it is, so any choice of escaped characters is
//! found.

use super::needles::{Found, Needles};

/// A longer run of line ends separates two texts; a shorter one is a line break within base64.
const MAX_BREAK: usize = 2;
/// The longest character reference of HTML, such as `&#x00007a;`.
const MAX_REFERENCE: usize = 10;
/// Replaces a character that no value has.
const OTHER: u8 = 0x80;

/// The names that HTML gives to visible ASCII characters.
const NAMED: [(&[u8], u8); 31] = [
    (b"amp", b'&'),
    (b"apos", b'\''),
    (b"ast", b'*'),
    (b"bsol", b'\\'),
    (b"colon", b':'),
    (b"comma", b','),
    (b"commat", b'@'),
    (b"dollar", b'$'),
    (b"equals", b'='),
    (b"excl", b'!'),
    (b"grave", b'`'),
    (b"gt", b'>'),
    (b"Hat", b'^'),
    (b"lcub", b'{'),
    (b"lowbar", b'_'),
    (b"lpar", b'('),
    (b"lsqb", b'['),
    (b"lt", b'<'),
    (b"NewLine", b'\n'),
    (b"num", b'#'),
    (b"percnt", b'%'),
    (b"period", b'.'),
    (b"plus", b'+'),
    (b"quest", b'?'),
    (b"quot", b'"'),
    (b"rcub", b'}'),
    (b"rpar", b')'),
    (b"rsqb", b']'),
    (b"semi", b';'),
    (b"sol", b'/'),
    (b"verbar", b'|'),
];

/// How bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    Plain,
    Percent,
    Json,
    Html,
}

/// The first character of some bytes.
enum Character {
    /// This byte, written with so many.
    Is(u8, usize),
    /// It depends on bytes that have not come yet.
    Open,
}

/// Bytes without their escapes, and where each was.
#[derive(Default)]
struct Reading {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// Where the last character begins, if more bytes decide what it is.
    open: Option<usize>,
}

/// What a search has found.
pub(super) struct Searched {
    pub(super) found: Vec<Found>,
    /// From here on, bytes could be the start of an occurrence.
    pub(super) open_from: usize,
}

/// Searches every reading of some bytes.
pub(super) fn search(needles: &Needles, bytes: &[u8]) -> Searched {
    let mut searched = Searched { found: Vec::new(), open_from: bytes.len() };
    let mut readings = Vec::new();
    for escape in [Escape::Plain, Escape::Percent, Escape::Json, Escape::Html] {
        // Without an escape the reading is the plain one.
        let Some(reading) = escape.is_in(bytes).then(|| Reading::of(bytes, escape)) else {
            continue;
        };
        for found in needles.all_in(&reading.bytes) {
            let (start, end) = (reading.starts[found.start], reading.ends[found.end - 1]);
            searched.found.push(Found { start, end, owner: found.owner });
        }
        let begins = reading.bytes.len() - needles.open_end(&reading.bytes);
        let open = [reading.starts.get(begins).copied(), reading.open].into_iter().flatten();
        searched.open_from = open.fold(searched.open_from, usize::min);
        readings.push(reading);
    }
    // The next search begins there, so it must not begin within an escape of any reading.
    loop {
        let begins = readings.iter().map(|reading| reading.character_at(searched.open_from)).min();
        match begins {
            Some(begins) if begins < searched.open_from => searched.open_from = begins,
            _ => return searched,
        }
    }
}

impl Escape {
    fn is_in(self, bytes: &[u8]) -> bool {
        self.mark().is_none_or(|mark| bytes.contains(&mark))
    }

    fn mark(self) -> Option<u8> {
        match self {
            Escape::Plain => None,
            Escape::Percent => Some(b'%'),
            Escape::Json => Some(b'\\'),
            Escape::Html => Some(b'&'),
        }
    }

    fn first_of(self, bytes: &[u8]) -> Character {
        let first = bytes[0];
        if self.mark() != Some(first) {
            return Character::Is(first, 1);
        }
        let rest = &bytes[1..];
        let read = match self {
            Escape::Plain => return Character::Is(first, 1),
            Escape::Percent => hexadecimal(rest, 2).map(|code| code.map(|code| (code, 3))),
            Escape::Json => json(rest),
            Escape::Html => reference(rest),
        };
        match read {
            Some(Some((byte, length))) => Character::Is(byte, length),
            Some(None) => Character::Is(first, 1),
            None => Character::Open,
        }
    }
}

impl Reading {
    fn of(bytes: &[u8], escape: Escape) -> Reading {
        let mut reading = Reading::default();
        let mut at = 0;
        let mut line_ends = 0;
        while at < bytes.len() {
            let (byte, length) = match escape.first_of(&bytes[at..]) {
                Character::Is(byte, length) => (byte, length),
                Character::Open => {
                    reading.open = Some(at);
                    break;
                }
            };
            line_ends = if matches!(byte, b'\r' | b'\n') { line_ends + 1 } else { 0 };
            // A value has no line ends. A long run stays, so that what is held is bounded.
            if line_ends == 0 || line_ends > MAX_BREAK {
                reading.bytes.push(byte);
                reading.starts.push(at);
                reading.ends.push(at + length);
            }
            at += length;
        }
        reading
    }

    /// Where the character begins that has the byte at a position.
    fn character_at(&self, position: usize) -> usize {
        let before = self.starts.partition_point(|start| *start < position);
        match before.checked_sub(1) {
            Some(last) if self.ends[last] > position => self.starts[last],
            _ => position,
        }
    }
}

/// A number with so many hexadecimal digits, as a byte. `None` if more bytes decide, and within it
/// `None` if it is not one.
fn hexadecimal(bytes: &[u8], digits: usize) -> Option<Option<u8>> {
    let seen = &bytes[..digits.min(bytes.len())];
    if !seen.iter().all(u8::is_ascii_hexdigit) {
        return Some(None);
    }
    if seen.len() < digits {
        return None;
    }
    Some(Some(number(seen, 16)))
}

/// What follows a backslash in JSON, and the length with the backslash.
fn json(rest: &[u8]) -> Option<Option<(u8, usize)>> {
    match rest.first()? {
        b'u' => hexadecimal(&rest[1..], 4).map(|code| code.map(|code| (code, 6))),
        b'n' => Some(Some((b'\n', 2))),
        b'r' => Some(Some((b'\r', 2))),
        mark @ (b'"' | b'\\' | b'/') => Some(Some((*mark, 2))),
        _ => Some(None),
    }
}

/// What follows an ampersand in HTML, and the length with the ampersand.
fn reference(rest: &[u8]) -> Option<Option<(u8, usize)>> {
    let rest = &rest[..rest.len().min(MAX_REFERENCE - 1)];
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    let Some(end) = rest.iter().position(|byte| !is_part(byte)) else {
        return if rest.len() < MAX_REFERENCE - 1 { None } else { Some(None) };
    };
    let name = &rest[..end];
    let code = match name {
        _ if rest[end] != b';' => None,
        [b'#', b'x' | b'X', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit) => {
            Some(number(digits, 16))
        }
        [b'#', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => Some(number(digits, 10)),
        name => NAMED.iter().find(|(known, _)| *known == name).map(|(_, byte)| *byte),
    };
    Some(code.map(|code| (code, end + 2)))
}

/// The ASCII character with a number.
fn number(digits: &[u8], radix: u32) -> u8 {
    let text = std::str::from_utf8(digits).ok();
    let code = text.and_then(|digits| u32::from_str_radix(digits, radix).ok());
    code.and_then(|code| u8::try_from(code).ok()).filter(u8::is_ascii).unwrap_or(OTHER)
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
