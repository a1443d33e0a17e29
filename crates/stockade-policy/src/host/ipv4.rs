//! Recognising IPv4 addresses and their legacy spellings.
//!
//! `inet_aton` and browsers read `127.1`, `0x7f.1`, `0177.0.0.1` and `2130706433` as addresses,
//! while a resolver may look them up in the DNS. This module recognises them so that they can be
//! refused.

use std::net::Ipv4Addr;

/// How a dotted text reads as an IPv4 address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Numeric {
    /// The last label is not a number: the text is a name.
    No,
    /// Four decimal numbers without leading zeros.
    Strict(Ipv4Addr),
    /// A spelling that some software reads as this address.
    Legacy(Ipv4Addr),
    /// It ends in a number, so it is not a name, but no software reads it as an address.
    Broken,
}

/// Parses lower-case text without a trailing dot.
pub(super) fn read(text: &str) -> Numeric {
    let parts: Vec<&str> = text.split('.').collect();
    if !parts.last().is_some_and(|last| is_number(last)) {
        return Numeric::No;
    }
    if let Ok(address) = text.parse() {
        return Numeric::Strict(address);
    }
    match legacy(&parts) {
        Some(address) => Numeric::Legacy(address),
        None => Numeric::Broken,
    }
}

fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// The address by the rules of `inet_aton`: one to four parts, the last of which fills the rest.
fn legacy(parts: &[&str]) -> Option<Ipv4Addr> {
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 {
        return None;
    }
    let mut bits = 0;
    for (position, part) in leading.iter().enumerate() {
        let value = u8::try_from(number(part)?).ok()?;
        bits |= u32::from(value) << (24 - 8 * position);
    }
    let rest = number(last)?;
    let room = 32 - 8 * leading.len();
    if rest >> room != 0 {
        return None;
    }
    Some(Ipv4Addr::from(bits | u32::try_from(rest).ok()?))
}

fn number(part: &str) -> Option<u64> {
    let (digits, radix) = match part.strip_prefix("0x") {
        Some("") => return Some(0),
        Some(digits) => (digits, 16),
        None if part.len() > 1 && part.starts_with('0') => (part, 8),
        None => (part, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}
