//! Places in a text, and escaping text for display.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// The position of a clause in a text.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// The name of the text.
    pub file: Arc<str>,
    /// Line, counted from one; zero if the person did not write the text itself, as with flags.
    pub line: usize,
    /// Column in characters, counted from one; zero with a line of zero.
    pub column: usize,
    /// The line itself, without its indentation, shortened; or the flag that a line was made from.
    pub text: Arc<str>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", Printable(&self.file)),
            line => write!(f, "{}:{line}:{}", Printable(&self.file), self.column),
        }
    }
}

/// Text from a file, displayed with control and direction characters escaped, so that a text cannot
/// manipulate the terminal of the person who checks it.
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

/// Whether a terminal can show a character without moving, hiding or reordering text.
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
    fn escape_sequences_and_direction_marks_are_escaped() {
        let shown = Printable("a\u{1b}[2Jb\u{202e}c\u{e0041}").to_string();
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{202e}c\\u{e0041}");
    }
}
