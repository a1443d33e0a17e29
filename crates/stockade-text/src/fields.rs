//! Reads typed values from nodes, with a message for every mismatch.

use serde_json::Value;

use crate::{Dialect, KeyValue, Kind, Node, Report, TextSpan};

/// The most items a list may have.
const MAX_ITEMS: usize = 4096;

/// The longest word that is compared with the known ones; the comparison is quadratic.
const MAX_WORD_BYTES: usize = 80;

/// A mapping whose keys are all known.
pub struct Table<'n> {
    entries: &'n [KeyValue],
    /// Where it starts.
    pub place: TextSpan,
}

impl<'n> Table<'n> {
    /// A mapping without keys.
    pub fn empty(place: TextSpan) -> Table<'n> {
        Table { entries: &[], place }
    }

    /// A mapping with these keys, which are not checked.
    pub fn of(entries: &'n [KeyValue], place: TextSpan) -> Table<'n> {
        Table { entries, place }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The value, unless it is absent or null. Only for fields where both mean the default.
    pub fn get_non_null(&self, key: &str) -> Option<&'n Node> {
        self.get(key).filter(|node| !node.is_null())
    }

    /// The place of a key, or else of the mapping.
    pub fn key_place(&self, key: &str) -> TextSpan {
        let found = self.entries.iter().find(|entry| entry.key == key);
        found.map_or(self.place, |entry| entry.key_place)
    }
}

impl Report<'_> {
    /// A mapping with known keys only. Unknown keys are mistakes; the known ones are still read.
    pub fn table<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Table<'n>> {
        let entries = self.map(node, what)?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if self.is_full() {
                break;
            }
            let message = format!("{what} has no key `{}`", entry.key);
            let remedy = remedy_for_key(self.dialect, &entry.key, known);
            self.mistake(entry.key_place, message, remedy);
        }
        Some(Table { entries, place: node.place })
    }

    /// A mapping with any keys.
    pub fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [KeyValue]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            _ => {
                let message = format!("{what} must be a mapping, not {}", describe(node));
                self.mistake(node.place, message, "write `key: value` lines, or `{}` for none");
                None
            }
        }
    }

    /// A list.
    pub fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        self.list_up_to(node, what, MAX_ITEMS)
    }

    /// A list with at most so many items.
    pub fn list_up_to<'n>(
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
                    Kind::Scalar { text, .. } if !node.is_null() => format!("write `[{text}]`"),
                    _ => "write `[]` for none, or `- item` lines".to_owned(),
                };
                self.mistake(node.place, message, remedy);
                None
            }
        }
    }

    /// A single value of any type, as written.
    pub fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.kind {
            Kind::Scalar { text, .. } if !node.is_null() => Some(text),
            _ => {
                let message = format!("{what} must be a single value, not {}", describe(node));
                self.mistake(node.place, message, "write one value after the colon");
                None
            }
        }
    }

    /// Text: a word, or anything in quotes.
    pub fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match node.scalar_json() {
            Some(Value::String(text)) => Some(text),
            _ if matches!(node.kind, Kind::Scalar { .. }) && !node.is_null() => {
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

    /// `true` or `false`.
    pub fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        match node.scalar_json() {
            Some(Value::Bool(value)) => Some(value),
            _ => {
                let message = format!("{what} must be true or false, not {}", describe(node));
                self.mistake(node.place, message, "write `true` or `false`");
                None
            }
        }
    }

    /// One of a fixed set of words.
    pub fn word<T: Copy>(&mut self, node: &Node, what: &str, words: &[(&str, T)]) -> Option<T> {
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

    /// A required key.
    pub fn required<'n>(&mut self, table: &Table<'n>, key: &str, what: &str) -> Option<&'n Node> {
        let found = table.get(key);
        if found.is_none() {
            let message = format!("{what} needs `{key}`");
            self.mistake(table.place, message, format!("add `{key}: …`"));
        }
        found
    }
}

/// A description of a node, for a message.
pub fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a mapping".to_owned(),
        Kind::Scalar { .. } if node.is_null() => "nothing".to_owned(),
        Kind::Scalar { text, .. } => {
            let short: String = text.chars().take(60).collect();
            format!("`{short}`")
        }
    }
}

/// The remedy for an unknown key.
fn remedy_for_key(dialect: &Dialect, key: &str, known: &[&str]) -> String {
    let synonym = |words: &[&str]| {
        let found = dialect.other_words.iter().find(|(word, _)| *word == key);
        found.map(|(_, meant)| *meant).filter(|meant| words.contains(meant))
    };
    if let Some(meant) = synonym(known).or_else(|| closest(key, known)) {
        return format!("did you mean `{meant}`?");
    }
    let elsewhere = dialect.sections.iter().find_map(|(section, words)| {
        let meant = words.iter().find(|word| **word == key).copied().or_else(|| synonym(words))?;
        Some((*section, meant))
    });
    match elsewhere {
        Some((section, meant)) if meant == key => format!("`{key}` belongs in {section}"),
        Some((section, meant)) => format!("did you mean `{meant}` in {section}?"),
        None => format!("remove it, or use one of: {}", known.join(", ")),
    }
}

/// Whether two words differ only in case, separators and one typo.
pub fn is_nearly(known: &str, written: &str) -> bool {
    // A much longer word is a different word, and comparing it would take long.
    let close = written.len() <= known.len() + 16;
    close && strsim::damerau_levenshtein(&plain(known), &plain(written)) <= 1
}

fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace(['_', '-', ' '], "")
}

/// The known word that was probably meant.
pub fn closest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    if written.len() > MAX_WORD_BYTES {
        return None;
    }
    let wanted = plain(written);
    let distance = |word: &str| strsim::damerau_levenshtein(&wanted, &plain(word));
    let best = known.iter().min_by_key(|word| distance(word))?;
    // A third of the letters may be wrong; beyond that a guess does not help.
    (distance(best) * 3 <= plain(best).len().min(wanted.len().max(1))).then_some(*best)
}
