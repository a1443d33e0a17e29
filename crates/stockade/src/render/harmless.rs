//! A program's output made harmless for a terminal, chunk by chunk.

use stockade_policy::is_harmless;

/// Shows what would drive a terminal as text: `\x1b` for an escape. Lines, tabs and carriage
/// returns pass. A character may be split over chunks.
#[derive(Default)]
pub(crate) struct Harmless {
    /// The beginning of a character whose end has not come; at most three bytes.
    begun: Vec<u8>,
}

impl Harmless {
    /// The harmless form of a chunk, as far as its characters are whole.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(chunk);
        let mut shown = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    show(text, &mut shown);
                    return shown;
                }
                Err(error) => error,
            };
            let (whole, after) = rest.split_at(error.valid_up_to());
            show(&String::from_utf8_lossy(whole), &mut shown);
            let Some(wrong) = error.error_len() else {
                self.begun = after.to_vec();
                return shown;
            };
            let (wrong, after) = after.split_at(wrong);
            show_bytes(wrong, &mut shown);
            rest = after;
        }
    }

    /// What is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut shown = Vec::new();
        show_bytes(&std::mem::take(&mut self.begun), &mut shown);
        shown
    }
}

fn show(text: &str, shown: &mut Vec<u8>) {
    for character in text.chars() {
        if matches!(character, '\n' | '\t' | '\r') || is_harmless(character) {
            shown.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        } else if character.is_ascii() {
            shown.extend(format!("\\x{:02x}", u32::from(character)).bytes());
        } else {
            shown.extend(character.escape_unicode().map(|plain| plain as u8));
        }
    }
}

fn show_bytes(bytes: &[u8], shown: &mut Vec<u8>) {
    for byte in bytes {
        shown.extend(format!("\\x{byte:02x}").bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The harmless form of a text that comes in pieces of so many bytes.
    fn in_pieces(bytes: &[u8], size: usize) -> String {
        let mut harmless = Harmless::default();
        let mut shown: Vec<u8> =
            bytes.chunks(size).flat_map(|chunk| harmless.feed(chunk)).collect();
        shown.extend(harmless.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn escape_sequences_are_shown_and_plain_text_passes() {
        let cases: [(&[u8], &str); 8] = [
            (b"a\tb\r\nc\n", "a\tb\r\nc\n"),
            ("grüße 漢字 🙂".as_bytes(), "grüße 漢字 🙂"),
            (b"\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07"),
            (b"\x08\x7f\0", "\\x08\\x7f\\x00"),
            ("\u{9b}2J".as_bytes(), "\\u{9b}2J"),
            ("\u{202e}x".as_bytes(), "\\u{202e}x"),
            (b"\x9b2J\xff", "\\x9b2J\\xff"),
            (b"\xe2\x82", "\\xe2\\x82"),
        ];
        for (bytes, shown) in cases {
            assert_eq!(in_pieces(bytes, 1024), shown);
        }
    }

    #[test]
    fn where_chunks_are_cut_changes_nothing() {
        let bytes = "é\u{9b}漢🙂\u{1b}[0m\u{202e}".as_bytes();
        let bytes = [bytes, b"\xff\xe2\x82\x1b\xf0\x9f"].concat();
        let whole = in_pieces(&bytes, bytes.len());
        for size in 1..bytes.len() {
            assert_eq!(in_pieces(&bytes, size), whole, "in pieces of {size}");
        }
    }
}
