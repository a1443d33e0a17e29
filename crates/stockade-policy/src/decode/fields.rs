//! Reading typed values from nodes, with messages for everything that does not fit.

use std::path::Path;

use serde_json::{Number, Value};

use crate::diagnostic::{Place, Report};
use crate::source::Sourced;
use crate::tree::{Entry, Kind, Node};

use super::keys;

/// The most items a list may have.
const MAX_ITEMS: usize = 4096;

/// Deepest lists in a value of a rule. A policy that is shown or combined nests its rules deeper,
/// and must still be read.
const MAX_VALUE_DEPTH: usize = 8;

/// The longest word that is compared with the known ones; comparing is quadratic.
const MAX_WORD_BYTES: usize = 80;

pub(super) struct Decoder<'r, 't> {
    pub(super) report: &'r mut Report<'t>,
    pub(super) base: &'r Path,
    /// How many regular expressions were read.
    pub(super) regexes: usize,
    /// What they take together, in bytes.
    pub(super) regex_bytes: usize,
    /// How long they are as written, in bytes.
    pub(super) regex_text: usize,
}

/// A mapping whose keys are all known.
pub(super) struct Table<'n> {
    entries: &'n [Entry],
    pub(super) place: Place,
}

impl<'n> Table<'n> {
    pub(super) fn empty(place: Place) -> Table<'n> {
        Table { entries: &[], place }
    }

    pub(super) fn of(entries: &'n [Entry], place: Place) -> Table<'n> {
        Table { entries, place }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The value, unless it is absent or null. Only for fields where both mean unsaid.
    pub(super) fn get_said(&self, key: &str) -> Option<&'n Node> {
        self.get(key).filter(|node| !is_null(node))
    }

    pub(super) fn key_place(&self, key: &str) -> Place {
        let found = self.entries.iter().find(|entry| entry.key == key);
        found.map_or(self.place, |entry| entry.key_place)
    }
}

impl Decoder<'_, '_> {
    pub(super) fn mistake(
        &mut self,
        place: Place,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report.mistake(place, message, remedy);
    }

    pub(super) fn sourced<T>(&self, value: T, node: &Node) -> Sourced<T> {
        Sourced::at(value, self.report.origin(node.place))
    }

    /// A mapping with known keys only. Unknown ones are mistakes, but the known ones are read on.
    pub(super) fn table<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
    ) -> Option<Table<'n>> {
        let entries = self.map(node, what)?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if self.report.is_full() {
                break;
            }
            let message = format!("{what} has no key `{}`", entry.key);
            let remedy = remedy_for_key(&entry.key, known);
            self.mistake(entry.key_place, message, remedy);
        }
        Some(Table { entries, place: node.place })
    }

    /// A mapping with any keys.
    pub(super) fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Entry]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            _ => {
                let message = format!("{what} must be a mapping, not {}", describe(node));
                self.mistake(node.place, message, "write `key: value` lines, or `{}` for none");
                None
            }
        }
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        self.list_up_to(node, what, MAX_ITEMS)
    }

    /// A list with at most so many items.
    pub(super) fn list_up_to<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        most: usize,
    ) -> Option<&'n [Node]> {
        match &node.kind {
            Kind::List(items) if items.len() > most => {
                let message = format!("{what} has more than {most} items");
                self.mistake(node.place, message, "shorten the list");
                None
            }
            Kind::List(items) => Some(items),
            _ => {
                let message = format!("{what} must be a list, not {}", describe(node));
                let remedy = match &node.kind {
                    Kind::Scalar { text, .. } if !is_null(node) => format!("write `[{text}]`"),
                    _ => "write `[]` for none, or `- item` lines".to_owned(),
                };
                self.mistake(node.place, message, remedy);
                None
            }
        }
    }

    /// A single value of any type, as it is written.
    pub(super) fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.kind {
            Kind::Scalar { text, .. } if !is_null(node) => Some(text),
            _ => {
                let message = format!("{what} must be a single value, not {}", describe(node));
                self.mistake(node.place, message, "write one value after the colon");
                None
            }
        }
    }

    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match scalar_value(node) {
            Some(Value::String(text)) => Some(text),
            Some(_) if !is_null(node) && !is_collection(node) => {
                let written = self.scalar(node, what)?.to_owned();
                let message = format!("{what} must be text, not {}", describe(node));
                self.mistake(node.place, message, format!("put quotes around it: \"{written}\""));
                None
            }
            _ => {
                let message = format!("{what} must be text, not {}", describe(node));
                self.mistake(node.place, message, "write one word or a quoted text");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        match scalar_value(node) {
            Some(Value::Bool(value)) => Some(value),
            _ => {
                let message = format!("{what} must be true or false, not {}", describe(node));
                self.mistake(node.place, message, "write `true` or `false`");
                None
            }
        }
    }

    /// One of a fixed set of words.
    pub(super) fn word<T: Copy>(
        &mut self,
        node: &Node,
        what: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let written = match &node.kind {
            Kind::Scalar { text, .. } => text.as_str(),
            _ => "",
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == written) {
            return Some(*value);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("{what} cannot be {}", describe(node));
        let remedy = match closest(written, &known) {
            Some(word) => format!("did you mean `{word}`? It is one of: {}", known.join(", ")),
            None => format!("write one of: {}", known.join(", ")),
        };
        self.mistake(node.place, message, remedy);
        None
    }

    /// A non-negative number, held as so many thousandths or ones. Digits past the held
    /// precision are cut off, which makes a limit smaller, never larger.
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
            let message = format!("{what} cannot be `{text}`: that is no limit");
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

    /// Any value, as a rule compares it.
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
                    format!("`{text}` is a truth value to some YAML readers and text to others");
                self.mistake(
                    node.place,
                    message,
                    "write `true` or `false`, or put quotes around it",
                );
                None
            }
            Kind::Scalar { text, quoted: false } if is_disputed_number(text) => {
                let message = format!("`{text}` is another number to some YAML readers");
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
            Kind::Scalar { .. } => match scalar_value(node) {
                Some(value) => Some(value),
                None => {
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

pub(super) fn is_null(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, quoted: false }
        if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
}

fn is_collection(node: &Node) -> bool {
    !matches!(node.kind, Kind::Scalar { .. })
}

/// A scalar by the core schema of YAML 1.2; `None` for collections and for numbers JSON lacks.
fn scalar_value(node: &Node) -> Option<Value> {
    let Kind::Scalar { text, quoted } = &node.kind else { return None };
    if *quoted {
        return Some(Value::String(text.clone()));
    }
    if is_null(node) {
        return Some(Value::Null);
    }
    match text.as_str() {
        "true" | "True" | "TRUE" => return Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "-.inf" | "-.Inf" | "-.INF"
        | "+.inf" | "+.Inf" | "+.INF" => return None,
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned.strip_prefix('.').unwrap_or(unsigned);
    let starts_like_number = digits.starts_with(|c: char| c.is_ascii_digit());
    if starts_like_number {
        if let Ok(whole) = text.parse::<i64>() {
            return Some(Value::Number(whole.into()));
        }
        if let Ok(real) = text.parse::<f64>() {
            return Number::from_f64(real).map(Value::Number);
        }
    }
    Some(Value::String(text.clone()))
}

/// Words that YAML 1.1 reads as truth values and YAML 1.2 as text.
fn is_disputed(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "yes" | "no" | "on" | "off" | "y" | "n")
}

/// Whole numbers that do not fit and would be rounded.
fn is_beyond_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole && text.parse::<i64>().is_err()
}

/// Numbers that YAML 1.1 reads as octal, hexadecimal, binary, grouped or base sixty, and YAML 1.2
/// otherwise.
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
    // A number too large to hold is out of every bound; the largest one says so.
    let whole: u64 = whole.parse().unwrap_or(u64::MAX);
    let mut held = whole.saturating_mul(scale);
    let mut step = scale;
    for digit in fraction.bytes() {
        step /= 10;
        held = held.saturating_add(u64::from(digit - b'0') * step);
    }
    Some(held)
}

pub(super) fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a mapping".to_owned(),
        Kind::Scalar { .. } if is_null(node) => "nothing".to_owned(),
        Kind::Scalar { text, .. } => {
            let short: String = text.chars().take(60).collect();
            format!("`{short}`")
        }
    }
}

fn remedy_for_key(key: &str, known: &[&str]) -> String {
    let synonym = |words: &[&str]| {
        let found = keys::OTHER_WORDS.iter().find(|(word, _)| *word == key);
        found.map(|(_, meant)| *meant).filter(|meant| words.contains(meant))
    };
    if let Some(meant) = synonym(known).or_else(|| closest(key, known)) {
        return format!("did you mean `{meant}`?");
    }
    let elsewhere = keys::SECTIONS.iter().find_map(|(section, words)| {
        let meant = words.iter().find(|word| **word == key).copied().or_else(|| synonym(words))?;
        Some((*section, meant))
    });
    match elsewhere {
        Some((section, meant)) if meant == key => format!("`{key}` belongs in {section}"),
        Some((section, meant)) => format!("did you mean `{meant}` in {section}?"),
        None => format!("remove it, or use one of: {}", known.join(", ")),
    }
}

/// Whether a word is another but for case, separators and one slip.
pub(super) fn is_nearly(known: &str, written: &str) -> bool {
    // A much longer word is another word, and comparing it would take its time.
    let close = written.len() <= known.len() + 16;
    close && strsim::damerau_levenshtein(&plain(known), &plain(written)) <= 1
}

fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace(['_', '-', ' '], "")
}

/// The known word that was probably meant.
pub(super) fn closest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    if written.len() > MAX_WORD_BYTES {
        return None;
    }
    let wanted = plain(written);
    let distance = |word: &str| strsim::damerau_levenshtein(&wanted, &plain(word));
    let best = known.iter().min_by_key(|word| distance(word))?;
    // A third of the letters may be wrong; more is a guess nobody would thank us for.
    (distance(best) * 3 <= plain(best).len().min(wanted.len().max(1))).then_some(*best)
}
