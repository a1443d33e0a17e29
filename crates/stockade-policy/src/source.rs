//! Policy text and places in it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

/// The longest policy text that is read at all, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// A policy as it was read, not yet checked.
#[derive(Clone, Debug)]
pub struct PolicyText {
    /// What messages call it, usually the file's path as the person wrote it.
    pub name: String,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The absolute directory that relative host paths start from.
    pub base: PathBuf,
}

/// Where in a policy text something was said.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// The name of the text.
    pub file: Arc<str>,
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// The line itself, without its indentation, shortened.
    pub text: Arc<str>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", Printable(&self.file), self.line, self.column)
    }
}

/// What a decision rests on.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Basis {
    /// A line of a policy text.
    Line(Origin),
    /// Something no policy text says: a default or a fixed rule of the language.
    BuiltIn {
        /// The rule, as a short phrase.
        rule: &'static str,
    },
}

impl Basis {
    /// The place in a text, where there is one.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Basis::Line(origin) => Some(origin),
            Basis::BuiltIn { .. } => None,
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::Line(origin) => write!(f, "{origin}: {}", origin.text),
            Basis::BuiltIn { rule } => write!(f, "built in: {rule}"),
        }
    }
}

/// A value together with what it rests on.
///
/// Two of them are equal when their values are: a policy means the same wherever it was written.
#[derive(Clone, Debug)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub basis: Basis,
}

impl<T> Sourced<T> {
    /// A value that no text gave.
    pub fn built_in(value: T, rule: &'static str) -> Sourced<T> {
        Sourced { value, basis: Basis::BuiltIn { rule } }
    }

    /// A value that a line of text gave.
    pub fn at(value: T, origin: Origin) -> Sourced<T> {
        Sourced { value, basis: Basis::Line(origin) }
    }
}

impl<T: PartialEq> PartialEq for Sourced<T> {
    fn eq(&self, other: &Sourced<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Sourced<T> {}

/// Text from a file, shown with control and direction characters escaped, so that a policy
/// cannot rewrite the terminal of the person who checks it.
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if is_harmless(character) {
                write!(f, "{character}")?;
            } else {
                write!(f, "{}", character.escape_unicode())?;
            }
        }
        Ok(())
    }
}

/// Whether a character can be shown on a terminal without moving, hiding or reordering text.
pub fn is_harmless(character: char) -> bool {
    let invisible = matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    !character.is_control() && !invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_are_shown_not_obeyed() {
        let shown = Printable("a\u{1b}[2Jb\u{202e}c\u{e0041}").to_string();
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{202e}c\\u{e0041}");
    }

    #[test]
    fn values_are_equal_wherever_they_were_written() {
        let here = Origin { file: "a".into(), line: 1, column: 1, text: "x".into() };
        assert_eq!(Sourced::at(1, here), Sourced::built_in(1, "default"));
    }
}
