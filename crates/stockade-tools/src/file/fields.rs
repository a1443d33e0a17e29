//! Reading typed values from nodes, with a message for everything that does not fit.

use std::path::Path;

use serde_json::Value;

use super::report::{Place, Report};
use super::tree::{Entry, Kind, Node};

/// The longest word that is compared with the known ones; comparing is quadratic.
const MAX_WORD_BYTES: usize = 80;

pub(super) struct Decoder<'r, 't> {
    pub(super) report: &'r mut Report<'t>,
    pub(super) base: &'r Path,
}

/// A mapping whose keys are all known.
pub(super) struct Table<'n> {
    entries: &'n [Entry],
    pub(super) place: Place,
}

impl<'n> Table<'n> {
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

impl Decoder<'_, '_> {
    pub(super) fn mistake(
        &mut self,
        place: Place,
        message: impl AsRef<str>,
        remedy: impl AsRef<str>,
    ) {
        self.report.mistake(place, message, remedy);
    }

    pub(super) fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Entry]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            Kind::Scalar { .. } | Kind::List(_) => {
                let message = format!("{what} must be a mapping, not {}", describe(node));
                self.mistake(node.place, message, "write `key: value` lines, or `{}` for none");
                None
            }
        }
    }

    /// A mapping with known keys only.
    pub(super) fn table<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
    ) -> Option<Table<'n>> {
        let entries = self.map(node, what)?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let remedy = match closest(&entry.key, known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("remove it, or use one of: {}", known.join(", ")),
            };
            self.mistake(entry.place, format!("{what} has no key `{}`", entry.key), remedy);
        }
        Some(Table { entries, place: node.place })
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        match &node.kind {
            Kind::List(items) => Some(items),
            Kind::Scalar { .. } | Kind::Map(_) => {
                let message = format!("{what} must be a list, not {}", describe(node));
                self.mistake(node.place, message, "write `[]` for none, or `- item` lines");
                None
            }
        }
    }

    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match node.json() {
            Ok(Value::String(text)) if !text.contains('\0') => Some(text),
            _ => {
                let message = format!("{what} must be text, not {}", describe(node));
                self.mistake(node.place, message, "write one word, or a text in quotes");
                None
            }
        }
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, node: &Node, what: &str) -> Option<Vec<String>> {
        let items = self.list(node, what)?;
        items.iter().map(|item| self.text(item, &format!("an item of {what}"))).collect()
    }

    pub(super) fn required<'n>(
        &mut self,
        table: &Table<'n>,
        key: &str,
        what: &str,
    ) -> Option<&'n Node> {
        let node = table.get(key);
        if node.is_none() {
            self.mistake(table.place, format!("{what} lacks `{key}`"), format!("add `{key}: …`"));
        }
        node
    }
}

pub(super) fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a mapping".to_owned(),
        Kind::Scalar { text, quoted: false }
            if text.is_empty() || text == "null" || text == "~" =>
        {
            "nothing".to_owned()
        }
        Kind::Scalar { text, .. } => format!("`{}`", text.chars().take(60).collect::<String>()),
    }
}

/// The known word that was probably meant.
pub(super) fn closest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    if written.len() > MAX_WORD_BYTES {
        return None;
    }
    let plain = |word: &str| word.to_lowercase().replace(['_', '-', ' '], "");
    let written = plain(written);
    let distance = |word: &str| strsim::damerau_levenshtein(&written, &plain(word));
    let best = known.iter().min_by_key(|word| distance(word))?;
    // A third of the letters may be wrong; more is a guess.
    (distance(best) * 3 <= plain(best).len()).then_some(*best)
}
