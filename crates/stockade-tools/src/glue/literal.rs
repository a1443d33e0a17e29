//! Untrusted texts as Python literals.

use std::fmt::Write;

/// A Python literal with exactly this value. It is printable ASCII on one line, and nothing in the
/// text can end the literal.
pub(super) fn literal(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for character in text.chars() {
        match character {
            '\'' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '\n' => quoted.push_str("\\n"),
            ' '..='~' => quoted.push(character),
            other => {
                write!(quoted, "\\U{:08x}", u32::from(other)).expect("writing to a text succeeds")
            }
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_literal() {
        assert_eq!(literal("a'b\"\\\n\"\"\"'''"), r#"'a\'b"\\\n"""\'\'\''"#);
        assert_eq!(
            literal("\0\r\u{85}é😀"),
            r"'\U00000000\U0000000d\U00000085\U000000e9\U0001f600'"
        );
    }
}
