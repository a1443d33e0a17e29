//! What quoted lines do not show: values that may be secrets.

use std::ops::Range;

use crate::{Dialect, Kind, Node};

/// The shortest word that is looked for in lines. Secrets are longer.
const SHORTEST: usize = 4;

/// The most words that are looked for, and the longest line, in bytes. Beyond them a line is hidden
/// as a whole, because the search would take long.
const MAX_WORDS: usize = 200;
const MAX_LINE: usize = 4096;

/// Texts that no quoted line may show.
#[derive(Default)]
pub(crate) struct Hidden {
    words: Vec<String>,
}

impl Hidden {
    /// Adds every value in a node.
    pub(crate) fn add(&mut self, node: &Node) {
        match &node.kind {
            Kind::Scalar { text, .. } => {
                // A text of several lines is one word in each of them at least.
                let words = text.split_whitespace().filter(|word| word.len() >= SHORTEST);
                self.words.extend(words.map(str::to_owned));
            }
            Kind::List(items) => items.iter().for_each(|item| self.add(item)),
            Kind::Map(entries) => entries.iter().for_each(|entry| self.add(&entry.value)),
        }
    }

    /// The line with `…` for each hidden part, and for each column of the line, and the one after
    /// it, the column in the result; both count from zero.
    pub(crate) fn masked(&self, line: &str, dialect: &Dialect) -> (String, Vec<usize>) {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        if !self.words.is_empty() && (line.len() > MAX_LINE || self.words.len() > MAX_WORDS) {
            ranges.push(0..line.len());
        } else {
            let words = self.words.iter();
            let found = words.flat_map(|word| line.match_indices(word.as_str()));
            ranges.extend(found.map(|(at, word)| at..at + word.len()));
        }
        if let Some((key, sources)) = dialect.hidden {
            ranges.extend(values(line, key).filter(|value| {
                let text = &line[value.clone()];
                !sources.iter().any(|source| text.starts_with(source))
            }));
        }
        let (mut masked, mut columns, mut written) = (String::new(), Vec::new(), 0_usize);
        ranges.sort_by_key(|range| range.start);
        let mut ranges = ranges.into_iter().peekable();
        let (mut was_hidden, mut hidden_to) = (false, 0);
        for (at, character) in line.char_indices() {
            while let Some(range) = ranges.next_if(|range| range.start <= at) {
                hidden_to = hidden_to.max(range.end);
            }
            let is_hidden = at < hidden_to;
            if !(is_hidden && was_hidden) {
                masked.push(if is_hidden { '…' } else { character });
                written += 1;
            }
            was_hidden = is_hidden;
            columns.push(written - 1);
        }
        columns.push(written);
        (masked, columns)
    }
}

/// Where the values of a key are in a line, without quotes around them.
fn values<'l>(line: &'l str, key: &'l str) -> impl Iterator<Item = Range<usize>> + 'l {
    line.match_indices(key).filter_map(move |(at, _)| {
        let before = line[..at].chars().next_back();
        let is_key = before.is_none_or(|it| it.is_whitespace() || "{,\"'-".contains(it));
        let rest = line[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
        let rest = rest.strip_prefix(':').filter(|_| is_key)?.trim_start();
        let start = line.len() - rest.len();
        // Without quotes a value can have commas and brackets, so nothing after it is shown.
        let value = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => start + 1..start + 1 + quoted(&rest[1..], quote),
            _ => start..line.len(),
        };
        (!value.is_empty()).then_some(value)
    })
}

/// The length of a text up to the quote that ends it.
fn quoted(text: &str, quote: char) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        match character {
            '\\' if quote == '"' => _ = characters.next(),
            // Two single quotes stand for one.
            '\'' if quote == '\'' && next == Some(quote) => _ = characters.next(),
            character if character == quote => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextSpan;
    use crate::dialect::PLAIN;

    #[test]
    fn value_of_the_hidden_key_is_not_shown_and_columns_follow() {
        let hidden = Hidden::default();
        for (line, shown) in [
            ("from: sk-live-1", "from: …"),
            (
                "  - { name: K, from: \"sk-live\", hosts: [a] }",
                "  - { name: K, from: \"…\", hosts: [a] }",
            ),
            ("{from: 'sk, } x', a: 1}", "{from: '…', a: 1}"),
            ("{from: sk-live, a: 1}", "{from: …"),
            ("{from: 'it''s', a: 1}", "{from: '…', a: 1}"),
            ("{from: 'it''', a: 1}", "{from: '…', a: 1}"),
            (r#"{from: "s\"k", a: 1}"#, r#"{from: "…", a: 1}"#),
            ("\"from\": \"sk-li", "\"from\": \"…"),
            ("from: !sk-live", "from: …"),
            ("from: \"env:NAME\"", "from: \"env:NAME\""),
            ("from: file:/a", "from: file:/a"),
            ("therefrom: x", "therefrom: x"),
            ("from:", "from:"),
        ] {
            assert_eq!(hidden.masked(line, &PLAIN).0, shown, "{line}");
        }
        let line = "{from: 'sk-live', a: 1}";
        let (masked, columns) = hidden.masked(line, &PLAIN);
        assert_eq!(masked.chars().skip(columns[18]).collect::<String>(), "a: 1}");
        assert_eq!((columns[8], columns[14], columns[15]), (8, 8, 9));
    }

    #[test]
    fn every_word_of_a_hidden_value_is_masked_in_every_line() {
        let place = TextSpan::START;
        let kind = Kind::Scalar { text: "sk-live two".to_owned(), quoted: true };
        let mut hidden = Hidden::default();
        hidden.add(&Node { kind: Kind::List(vec![Node { kind, place }]), place });
        assert_eq!(hidden.masked("a: &x sk-live", &PLAIN).0, "a: &x …");
        assert_eq!(hidden.masked("ü sk-live ü sk-live", &PLAIN).0, "ü … ü …");
    }
}
