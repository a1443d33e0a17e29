//! Parses numbers and values of rules, with a message for every invalid one.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use serde_json::Value;
use stockade_text::{Kind, Node, Report, describe};

use crate::source::Sourced;

/// The deepest lists in a rule's value. A printed or combined policy nests its rules deeper, and
/// must still parse.
const MAX_VALUE_DEPTH: usize = 8;

pub(super) struct Decoder<'r, 't> {
    pub(super) report: &'r mut Report<'t>,
    pub(super) base: &'r Path,
    /// The number of regular expressions so far.
    pub(super) regexes: usize,
    /// Their compiled size, in bytes.
    pub(super) regex_bytes: usize,
    /// Their source length, in bytes.
    pub(super) regex_text: usize,
}

/// A decoder reads fields and collects mistakes through its report.
impl<'t> Deref for Decoder<'_, 't> {
    type Target = Report<'t>;

    fn deref(&self) -> &Report<'t> {
        self.report
    }
}

impl DerefMut for Decoder<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.report
    }
}

impl Decoder<'_, '_> {
    pub(super) fn sourced<T>(&self, value: T, node: &Node) -> Sourced<T> {
        Sourced::at(value, self.report.origin(node.place))
    }

    /// A non-negative number, stored in thousandths or ones. Further digits are dropped, which
    /// makes a limit smaller, never larger.
    pub(super) fn number(&mut self, node: &Node, what: &str, scale: u64) -> Option<u64> {
        let wrong = |decoder: &mut Self, message: String, remedy: String| {
            decoder.mistake(node.place, message, remedy);
            None
        };
        let kind = if scale == 1 { "a whole number" } else { "a number" };
        let Kind::Scalar { text, quoted } = &node.kind else {
            let message = format!("{what} must be {kind}, not {}", describe(node));
            return wrong(self, message, "write digits".to_owned());
        };
        if *quoted {
            let message = format!("{what} must be {kind}, not text in quotes");
            return wrong(self, message, "remove the quotes".to_owned());
        }
        if text.starts_with('-') {
            return wrong(
                self,
                format!("{what} cannot be negative"),
                "write it without the sign".into(),
            );
        }
        let lower = text.to_ascii_lowercase();
        if matches!(lower.as_str(), ".nan" | ".inf" | "+.inf" | "nan" | "inf" | "infinity") {
            let message = format!("{what} cannot be `{text}`: that is not a limit");
            return wrong(self, message, "write a number".to_owned());
        }
        match parse_scaled(text, scale) {
            Some(value) => Some(value),
            None if scale == 1 && parse_scaled(text, 1000).is_some() => {
                let message = format!("{what} must be a whole number, not `{text}`");
                wrong(self, message, "leave the fraction out".to_owned())
            }
            None => {
                let message = format!("{what} must be {kind}, not {}", describe(node));
                let remedy = "write digits only, without a unit, a sign, `_` or an exponent";
                wrong(self, message, remedy.to_owned())
            }
        }
    }

    /// Any value that a rule can compare with.
    pub(super) fn value(&mut self, node: &Node) -> Option<Value> {
        self.value_within(node, MAX_VALUE_DEPTH)
    }

    fn value_within(&mut self, node: &Node, levels: usize) -> Option<Value> {
        match &node.kind {
            Kind::List(_) if levels == 0 => {
                let message = format!(
                    "a value in a rule has more than {MAX_VALUE_DEPTH} lists inside each other"
                );
                self.mistake(node.place, message, "write a single value or a flat list");
                None
            }
            Kind::List(items) => {
                let values = items.iter().map(|item| self.value_within(item, levels - 1));
                values.collect::<Option<_>>().map(Value::Array)
            }
            Kind::Scalar { text, quoted: false } if is_disputed(text) => {
                let message =
                    format!("`{text}` is a boolean for some YAML parsers and text for others");
                self.mistake(
                    node.place,
                    message,
                    "write `true` or `false`, or put quotes around it",
                );
                None
            }
            Kind::Scalar { text, quoted: false } if is_disputed_number(text) => {
                let message = format!("`{text}` is a different number for some YAML parsers");
                let remedy = "write a plain decimal number, or put quotes around it";
                self.mistake(node.place, message, remedy);
                None
            }
            Kind::Scalar { text, quoted: false } if is_beyond_whole(text) => {
                let message = format!("`{text}` is too large to be compared exactly");
                self.mistake(
                    node.place,
                    message,
                    "write a smaller number, or put quotes around it",
                );
                None
            }
            Kind::Scalar { .. } => match node.json() {
                Ok(value) => Some(value),
                Err(_) => {
                    let message = "a value in a rule cannot be infinite or not a number";
                    self.mistake(node.place, message, "write a number or a quoted text");
                    None
                }
            },
            Kind::Map(_) => {
                let message = "a value in a rule cannot be a mapping";
                self.mistake(node.place, message, "write a single value or a list");
                None
            }
        }
    }
}

/// Words that YAML 1.1 reads as booleans and YAML 1.2 as text.
fn is_disputed(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off" | "y" | "n")
}

/// Whole numbers that are too large and would be rounded.
fn is_beyond_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole && text.parse::<i64>().is_err()
}

/// Numbers that YAML 1.1 reads as octal, hexadecimal, binary, grouped or base sixty, and YAML 1.2
/// reads differently.
fn is_disputed_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let octal = unsigned
        .strip_prefix('0')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let radix = ["0x", "0o", "0b"].iter().any(|prefix| unsigned.starts_with(prefix));
    let first = unsigned.starts_with(|c: char| c.is_ascii_digit());
    let grouped = first
        && unsigned.contains(['_', ':'])
        && unsigned.chars().all(|c| c.is_ascii_digit() || "_:.".contains(c));
    octal || radix || grouped
}

fn parse_scaled(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some((whole, fraction)) if scale > 1 => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty() || leading_zero || !digits(whole) || !digits(fraction) {
        return None;
    }
    // A number too large to store exceeds every bound; the largest value reports that.
    let whole: u64 = whole.parse().unwrap_or(u64::MAX);
    let mut held = whole.saturating_mul(scale);
    let mut step = scale;
    for digit in fraction.bytes() {
        step /= 10;
        held = held.saturating_add(u64::from(digit - b'0') * step);
    }
    Some(held)
}
