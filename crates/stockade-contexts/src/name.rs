//! The names of contexts.

use std::fmt;
use std::str::FromStr;

/// The name of a context: 1 to 64 letters, digits, `_`, `.` and `-`, starting with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextName(String);

/// A text is not the name of a context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a context cannot be called {text:?}: a name has 1 to 64 letters, digits, `_`, `.` and `-`, \
     and starts with a letter or digit"
)]
pub struct ContextNameError {
    /// The text, shortened.
    pub text: String,
}

impl ContextName {
    const MAX_BYTES: usize = 64;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContextName {
    type Err = ContextNameError;

    fn from_str(text: &str) -> Result<ContextName, ContextNameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match starts && text.len() <= ContextName::MAX_BYTES && text.bytes().all(is_allowed) {
            true => Ok(ContextName(text.to_owned())),
            false => {
                Err(ContextNameError { text: text.chars().take(ContextName::MAX_BYTES).collect() })
            }
        }
    }
}

impl fmt::Display for ContextName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_words_without_path_or_terminal_characters() {
        for name in ["a", "0", "my-context_2.x", &"a".repeat(64)] {
            assert_eq!(name.parse::<ContextName>().unwrap().as_str(), name);
        }
        for text in ["", "-a", ".", "..", "a/b", "a b", "\u{1b}[2J", "é", &"a".repeat(65)] {
            assert!(text.parse::<ContextName>().is_err(), "{text}");
        }
    }
}
