//! Policy text, and positions in it.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use stockade_text::Origin;

/// A policy text before it is checked.
#[derive(Clone, Debug)]
pub struct PolicyText {
    /// Its name in messages, usually the file's path as the person wrote it.
    pub name: String,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The absolute base directory of relative host paths.
    pub base: PathBuf,
}

/// The reason for a decision: a line or a built-in rule.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Basis {
    /// A line of a policy text.
    Line(Origin),
    /// A default or a fixed rule of the language, not a line of a policy text.
    BuiltIn {
        /// The rule, as a short phrase.
        rule: &'static str,
    },
}

impl Basis {
    /// The position in a text, if there is one.
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

/// A value together with its basis.
///
/// Two of them are equal if their values are: a policy means the same wherever it is written.
#[derive(Clone, Debug)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its basis.
    pub basis: Basis,
}

impl<T> Sourced<T> {
    /// A value that no text sets.
    pub fn built_in(value: T, rule: &'static str) -> Sourced<T> {
        Sourced { value, basis: Basis::BuiltIn { rule } }
    }

    /// A value that a line of text sets.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_wherever_they_were_written() {
        let here = Origin { file: "a".into(), line: 1, column: 1, text: "x".into() };
        assert_eq!(Sourced::at(1, here), Sourced::built_in(1, "default"));
    }
}
