//! Sanitises and shortens text from inside.

use stockade_policy::Printable;

/// The most characters of a host that are kept.
pub(crate) const MAX_HOST: usize = 255;
/// The most characters of a path that are kept.
pub(crate) const MAX_PATH: usize = 1024;

/// The start of a text, with unprintable characters escaped.
pub(crate) fn harmless(text: &str, most_characters: usize) -> String {
    let cut: String = text.chars().take(most_characters).collect();
    Printable(&cut).to_string().chars().take(most_characters).collect()
}

/// The same for bytes, of which only the first ones are considered.
pub(crate) fn harmless_bytes(bytes: &[u8], most_characters: usize) -> String {
    let cut = &bytes[..bytes.len().min(most_characters.saturating_mul(4))];
    harmless(&String::from_utf8_lossy(cut), most_characters)
}

/// A text for a field that allows only visible ASCII and spaces, such as a status line.
pub(crate) fn ascii_line(text: &str, most_characters: usize) -> String {
    let plain = |character: char| match character {
        ' '..='~' => character,
        _ => '?',
    };
    text.chars().take(most_characters).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_length_is_bounded() {
        assert_eq!(harmless("a\nb\u{1b}[2J", 100), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(harmless(&"\u{1b}".repeat(64 * 1024), 255).chars().count(), 255);
        assert_eq!(harmless_bytes(&[b'x'; 64 * 1024], 255).len(), 255);
        assert_eq!(ascii_line("naïve\r\nX: y", 100), "na?ve??X: y");
    }
}
