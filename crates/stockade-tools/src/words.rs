//! Sanitises and shortens text from tools, programs and files.

use std::fmt;

use stockade_policy::Printable;

/// The most characters of a message to a program inside.
pub(crate) const MAX_MESSAGE: usize = 1000;

/// The start of a text, with unprintable characters escaped.
pub(crate) fn harmless(text: &str, most_characters: usize) -> String {
    let cut: String = text.chars().take(most_characters).collect();
    let mut shown = Printable(&cut).to_string();
    if cut.len() < text.len() || shown.chars().nth(most_characters).is_some() {
        shown = shown.chars().take(most_characters.saturating_sub(1)).collect();
        shown.push('…');
    }
    shown
}

/// A number with the singular or plural of a word.
pub(crate) fn counted(number: impl fmt::Display, one: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {one}{ending}")
}

/// The last line that is not blank, of bytes that may not be UTF-8.
pub(crate) fn last_line(bytes: &[u8], most_characters: usize) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(harmless(line, most_characters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_unprintable_texts_are_cut_and_escaped() {
        assert_eq!(harmless("a\nb\u{1b}[2J", 100), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(harmless("abcdef", 6), "abcdef");
        assert_eq!(harmless("abcdefg", 6), "abcde…");
        assert_eq!(harmless(&"\u{1b}".repeat(9000), 50).chars().count(), 50);
    }

    #[test]
    fn count_of_one_is_singular() {
        let counts = [counted(1, "call"), counted(0, "call"), counted(1.5, "second")];
        assert_eq!(counts, ["1 call", "0 calls", "1.5 seconds"]);
        assert_eq!(counted(std::time::Duration::from_secs(1).as_secs_f64(), "second"), "1 second");
    }

    #[test]
    fn last_line_skips_blank_lines() {
        let traceback = b"Traceback:\n  x\nValueError: no\r\n\n \n";
        assert_eq!(last_line(traceback, 100).as_deref(), Some("ValueError: no"));
        assert_eq!(last_line(b" \n", 100), None);
        assert_eq!(last_line(b"\xff", 100).as_deref(), Some("\u{fffd}"));
    }
}
