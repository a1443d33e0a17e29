//! The method and the path of an HTTP request, in a form that rules can judge.
//!
//! Servers disagree about doubled slashes, dot segments and escapes. A path that two servers could
//! read differently is refused, so a rule about paths means the same at both ends.

mod error;
mod path_pattern;

use std::fmt;

use serde::Serialize;

pub use self::error::{MethodError, PathError};
pub use self::path_pattern::PathPattern;

const MAX_METHOD_BYTES: usize = 32;
const MAX_PATH_BYTES: usize = 8192;

/// An HTTP method, in upper case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Method(String);

impl Method {
    /// Parses a method of upper-case letters, digits and hyphens.
    pub fn parse(text: &str) -> Result<Method, MethodError> {
        let upper = text.to_ascii_uppercase();
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() {
            return Err(MethodError::Empty);
        }
        if text.len() > MAX_METHOD_BYTES || !upper.bytes().all(plain) {
            return Err(MethodError::Malformed);
        }
        if upper != text {
            return Err(MethodError::LowerCase { meant: upper });
        }
        match text {
            "CONNECT" => Err(MethodError::Connect),
            "TRACE" => Err(MethodError::Trace),
            _ => Ok(Method(upper)),
        }
    }

    /// The method as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The path of a request target, without query, that every server reads the same way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct UrlPath(String);

impl UrlPath {
    /// Parses the path of a request target; the part after `?` is dropped. A `#` is refused: no
    /// request contains one, and servers disagree about it.
    pub fn parse(target: &str) -> Result<UrlPath, PathError> {
        let end = target.find('?').unwrap_or(target.len());
        if target.contains('#') {
            return Err(PathError::ForbiddenCharacter { character: '#' });
        }
        let path = &target[..end];
        if path.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { maximum: MAX_PATH_BYTES });
        }
        canonical_path(path).map(UrlPath)
    }

    /// Converts the path of a request target into the one form that is judged and sent: needless
    /// escapes are decoded, dot segments resolved and repeated slashes merged. Refuses what has
    /// no such form, such as an escaped slash.
    pub fn normalized(target: &str) -> Result<UrlPath, PathError> {
        let end = target.find('?').unwrap_or(target.len());
        let path = &target[..end];
        if target.contains('#') {
            return Err(PathError::ForbiddenCharacter { character: '#' });
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { maximum: MAX_PATH_BYTES });
        }
        if !path.starts_with('/') {
            return Err(PathError::NotAbsolute);
        }
        // Once: what an escape decodes to is judged, and never decoded again.
        let decoded = without_needless_escapes(path)?;
        let mut kept: Vec<&str> = Vec::new();
        let mut is_directory = false;
        for segment in decoded.split('/').skip(1) {
            is_directory = matches!(segment, "" | "." | "..");
            match segment {
                "" | "." => {}
                ".." => _ = kept.pop(),
                segment => kept.push(segment),
            }
        }
        let mut normal = kept.iter().map(|segment| format!("/{segment}")).collect::<String>();
        if is_directory {
            normal.push('/');
        }
        canonical_path(&normal).map(UrlPath)
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between slashes; a path that ends in a slash ends in an empty part.
    fn segments(&self) -> Vec<&str> {
        self.0.split('/').skip(1).collect()
    }
}

impl fmt::Display for UrlPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Checks a path and converts its escapes to upper case.
fn canonical_path(path: &str) -> Result<String, PathError> {
    if !path.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    if let Some(character) = path.chars().find(|character| !character.is_ascii_graphic()) {
        return Err(PathError::ForbiddenCharacter { character });
    }
    if path.contains('\\') {
        return Err(PathError::Backslash);
    }
    if path.contains(';') {
        return Err(PathError::MatrixParameter);
    }
    let canonical = check_escapes(path)?;
    let mut segments = canonical.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if segment.is_empty() && segments.peek().is_some() {
            return Err(PathError::EmptySegment);
        }
        if matches!(segment, "." | "..") {
            return Err(PathError::DotSegment);
        }
    }
    Ok(canonical)
}

/// Decodes escapes of characters that mean the same escaped and plain.
fn without_needless_escapes(path: &str) -> Result<String, PathError> {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(character) = rest.chars().next() {
        if character != '%' {
            decoded.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let byte = hex_byte(&rest[1..]).ok_or(PathError::BadEscape)?;
        match is_unreserved(byte) {
            true => decoded.push(char::from(byte)),
            false => decoded.push_str(&rest[..3]),
        }
        rest = &rest[3..];
    }
    Ok(decoded)
}

/// Converts escapes to upper case, and refuses those that some server would decode into something
/// else.
fn check_escapes(path: &str) -> Result<String, PathError> {
    let mut canonical = String::with_capacity(path.len());
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(character) = rest.chars().next() {
        if character != '%' {
            canonical.push(character);
            decoded.push(character as u8);
            rest = &rest[1..];
            continue;
        }
        let byte = hex_byte(&rest[1..]).ok_or(PathError::BadEscape)?;
        rest = &rest[3..];
        match byte {
            b'/' | b'\\' => return Err(PathError::EncodedSeparator),
            b';' => return Err(PathError::MatrixParameter),
            b'%' if hex_byte(rest).is_some() => return Err(PathError::DoubleEscape),
            byte if byte.is_ascii_control() => return Err(PathError::EncodedControl),
            byte if is_unreserved(byte) => {
                return Err(PathError::NeedlessEscape { character: char::from(byte) });
            }
            _ => {}
        }
        canonical.push_str(&format!("%{byte:02X}"));
        decoded.push(byte);
    }
    // A lax decoder reads dots and slashes in overlong UTF-8 that a strict one does not.
    match std::str::from_utf8(&decoded) {
        Ok(text) if text.chars().any(char::is_control) => Err(PathError::EncodedControl),
        Ok(_) => Ok(canonical),
        Err(_) => Err(PathError::NotText),
    }
}

/// The byte of the two hexadecimal digits at the start of a text.
fn hex_byte(text: &str) -> Option<u8> {
    let digits = text.get(..2)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Whether the byte means the same escaped and plain, RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
