//! Prose names its actor: a few words that hide the actor are refused in sources and pages.

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

/// Checks every Rust source and every page.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.ends_with(".rs") || file.ends_with(".md")) {
        if let Some(text) = tree.text(file)? {
            findings.extend(check_text(file, &text));
        }
    }
    Ok(findings)
}

fn check_text(file: &str, text: &str) -> Vec<Finding> {
    let words = hiding_words();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(word) = words.iter().find(|word| has_word(line, word)) {
            findings.push(Finding {
                file: file.to_owned(),
                line: index + 1,
                what: format!("says {word:?}"),
                remedy: "name the actor and use the usual technical verb",
            });
        }
    }
    findings
}

/// Written in pieces, because this file is checked too.
fn hiding_words() -> [String; 6] {
    [
        ("who", "ever"),
        ("Who", "ever"),
        ("is ", "told"),
        ("are ", "told"),
        ("is ", "none"),
        ("begun ", "ahead"),
    ]
    .map(|(begin, end)| [begin, end].concat())
}

/// Whether a line has a phrase between the boundaries of words.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hiding_word_is_found_with_its_line() {
        for word in hiding_words() {
            let found = check_text("docs/a.md", &format!("fine\nthe guest {word} now\n"));
            assert_eq!((found.len(), found[0].line), (1, 2), "{word}");
        }
    }

    #[test]
    fn longer_words_and_other_spellings_are_accepted() {
        let [_, _, told, _, none, _] = hiding_words();
        let text = format!("{} has_{told} {}s", none.replace("none", "None"), told);
        assert_eq!(check_text("a.rs", &text), Vec::new());
    }
}
