//! Host names and addresses, with one strict parser.
//!
//! The parser refuses what other software would guess: a browser, a resolver and the gate all read
//! an accepted text the same way, so the judged host is the dialled host.

mod error;
mod ipv4;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use serde::{Serialize, Serializer};

pub use self::error::HostError;
use self::ipv4::Numeric;

/// The longest text that is converted at all; no valid name needs more bytes in UTF-8.
const MAX_TEXT_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// A DNS name in its canonical form: lower-case ASCII labels, no trailing dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct HostName(String);

impl HostName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The target of a connection: a name, or an address literal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name that has to be resolved.
    Name(HostName),
    /// An IP address literal.
    Address(IpAddr),
}

impl Host {
    /// Parses a name, a dotted IPv4 address, or an IPv6 address with or without brackets.
    pub fn parse(text: &str) -> Result<Host, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(HostError::TooLong);
        }
        refuse_foreign_syntax(text)?;
        if text.contains([':', '[', ']']) {
            return parse_v6(text);
        }
        let lowered: String = text.chars().map(lower_case).collect();
        let name = lowered.strip_suffix('.').unwrap_or(&lowered);
        check_labels(name)?;
        match ipv4::read(name) {
            Numeric::Strict(address) => Ok(Host::Address(address.into())),
            Numeric::Legacy(meaning) => Err(HostError::LegacyAddress { meaning }),
            Numeric::Broken => Err(HostError::BadAddress),
            Numeric::No => to_canonical_name(name).map(Host::Name),
        }
    }

    /// Parses a host from bytes of a network protocol; anything but UTF-8 is refused.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Host, HostError> {
        Host::parse(std::str::from_utf8(bytes).map_err(|_| HostError::NotText)?)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(formatter),
            Host::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses a host with an optional `:port`.
///
/// An IPv6 address takes a port only in brackets: without them every colon belongs to the address.
pub fn parse_host_port(text: &str) -> Result<(Host, Option<u16>), HostError> {
    refuse_foreign_syntax(text)?;
    let (host, port) = split_port(text)?;
    Ok((Host::parse(host)?, port))
}

/// Splits an optional `:port` from a host or host pattern, which is not parsed.
pub fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let host_bytes = match text.rfind(']') {
        Some(bracket) => bracket + 1,
        None if text.matches(':').count() > 1 => text.len(),
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(host_bytes);
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.strip_prefix(':').ok_or(HostError::BadAddress)?;
    let written_plainly = digits.len() <= 5
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(number) if written_plainly => Ok((host, Some(number))),
        _ => Err(HostError::BadPort),
    }
}

/// Refuses syntax that belongs to URLs, terminals or other layers, and is never part of a host.
fn refuse_foreign_syntax(text: &str) -> Result<(), HostError> {
    if let Some(character) = text.chars().find(|character| character.is_control()) {
        return Err(HostError::ControlByte { character });
    }
    if let Some((_, rest)) = text.split_once("://") {
        return Err(HostError::Scheme { host: host_of_authority(rest) });
    }
    if text.contains('@') {
        return Err(HostError::Userinfo);
    }
    if let Some(at) = text.find(['/', '\\', '?', '#']) {
        // Only a slash ends the host for every parser; the others are ambiguous.
        let host = if text[at..].starts_with('/') { host_of_authority(text) } else { None };
        return Err(HostError::Path { host });
    }
    if let Some((before, _)) = text.split_once('%') {
        return Err(match before.trim_start_matches('[').parse::<Ipv6Addr>() {
            Ok(_) => HostError::ZoneId,
            Err(_) => HostError::Percent,
        });
    }
    match text.chars().find(|character| character.is_whitespace()) {
        Some(character) => Err(HostError::Whitespace { character }),
        None => Ok(()),
    }
}

/// The host that a URL clearly names, for a remedy.
fn host_of_authority(text: &str) -> Option<String> {
    let authority = text.split(['/', '?', '#']).next()?;
    let (host, _) = split_port(authority).ok()?;
    Host::parse(host).ok().map(|host| host.to_string())
}

fn parse_v6(text: &str) -> Result<Host, HostError> {
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or(HostError::BadAddress)?,
        None => text,
    };
    match inner.parse::<Ipv6Addr>() {
        Ok(address) => Ok(Host::Address(address.into())),
        Err(_) if text.matches(':').count() == 1 && !text.contains(['[', ']']) => {
            Err(HostError::ForbiddenCharacter { character: ':' })
        }
        Err(_) => Err(HostError::BadAddress),
    }
}

/// Lower case if that is reversible; a Kelvin sign, whose lower case is a plain `k`, stays.
fn lower_case(character: char) -> char {
    let mut lowered = character.to_lowercase();
    match (lowered.next(), lowered.next()) {
        (Some(lower), None) if lower.to_uppercase().eq([character]) => lower,
        _ => character,
    }
}

fn check_labels(name: &str) -> Result<(), HostError> {
    let forbidden = |character: &char| {
        character.is_ascii() && !character.is_ascii_alphanumeric() && !"-.".contains(*character)
    };
    if let Some(character) = name.chars().find(forbidden) {
        return Err(HostError::ForbiddenCharacter { character });
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(HostError::EmptyLabel);
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(HostError::Hyphen);
        }
    }
    Ok(())
}

/// Converts to ASCII, and refuses names that the conversion would change beyond encoding them.
fn to_canonical_name(name: &str) -> Result<HostName, HostError> {
    let ascii = to_ascii(name)?;
    let (unicode, valid) =
        Uts46::new().to_unicode(ascii.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast);
    valid.map_err(|_| HostError::Idna)?;
    let same_labels = name.split('.').count() == ascii.split('.').count()
        && ascii.split('.').zip(unicode.split('.')).zip(name.split('.')).all(
            |((encoded, decoded), written)| {
                if written.is_ascii() {
                    encoded == written
                } else {
                    decoded == written && encoded.starts_with("xn--")
                }
            },
        );
    // The library promises the second, and once broke that promise: CVE-2024-12224.
    if !same_labels || to_ascii(&unicode)? != ascii {
        return Err(HostError::Ambiguous { meaning: ascii });
    }
    if ascii.split('.').any(|label| label.len() > MAX_LABEL_BYTES) {
        return Err(HostError::LabelTooLong);
    }
    if ascii.len() > MAX_NAME_BYTES {
        return Err(HostError::TooLong);
    }
    match ipv4::read(&ascii) {
        Numeric::No => Ok(HostName(ascii)),
        _ => Err(HostError::Ambiguous { meaning: ascii }),
    }
}

fn to_ascii(name: &str) -> Result<String, HostError> {
    // The caller checks lengths, because its errors name the exceeded one.
    Uts46::new()
        .to_ascii(name.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Ignore)
        .map(|ascii| ascii.into_owned())
        .map_err(|_| HostError::Idna)
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
