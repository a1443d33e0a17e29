//! Makes a program's output harmless for a terminal, chunk by chunk.

use stockade_policy::is_harmless;

/// The prefix of every line that Stockade prints about a run.
pub(crate) const PREFIX: &str = "stockade:";

/// Escapes terminal control characters: an escape becomes `\x1b`. Line ends and tabs pass.
///
/// A carriage return without a line feed becomes a line end, so that nothing is overwritten: a
/// progress bar becomes lines. The last character of [`PREFIX`] is escaped wherever the prefix
/// occurs, so that no line of a program looks like one of Stockade's. A character may span chunks.
#[derive(Default)]
pub(crate) struct Harmless {
    /// The bytes of an incomplete character; at most three.
    begun: Vec<u8>,
    /// Whether the last character was a carriage return that is still pending.
    is_returned: bool,
    /// How many characters of [`PREFIX`] the preceding output matches.
    matched: usize,
}

impl Harmless {
    /// The harmless form of a chunk, without an incomplete last character.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(chunk);
        let mut shown = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.show(text, &mut shown);
                    return shown;
                }
                Err(error) => error,
            };
            let (whole, after) = rest.split_at(error.valid_up_to());
            self.show(&String::from_utf8_lossy(whole), &mut shown);
            let Some(wrong) = error.error_len() else {
                self.begun = after.to_vec();
                return shown;
            };
            let (wrong, after) = after.split_at(wrong);
            self.return_to(None, &mut shown);
            self.matched = 0;
            show_bytes(wrong, &mut shown);
            rest = after;
        }
    }

    /// The pending bytes at the end of the stream.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut shown = Vec::new();
        self.return_to(None, &mut shown);
        show_bytes(&std::mem::take(&mut self.begun), &mut shown);
        shown
    }

    fn show(&mut self, text: &str, shown: &mut Vec<u8>) {
        for character in text.chars() {
            self.return_to(Some(character), shown);
            if character == '\r' {
                self.is_returned = true;
            } else if self.ends_prefix(character) {
                show_bytes(character.encode_utf8(&mut [0; 4]).as_bytes(), shown);
            } else if matches!(character, '\n' | '\t') || is_harmless(character) {
                shown.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            } else if character.is_ascii() {
                shown.extend(format!("\\x{:02x}", u32::from(character)).bytes());
            } else {
                shown.extend(character.escape_unicode().map(|plain| plain as u8));
            }
        }
    }

    /// Writes a pending carriage return, now that the next character is known.
    fn return_to(&mut self, next: Option<char>, shown: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_returned) {
            shown.push(if next == Some('\n') { b'\r' } else { b'\n' });
        }
    }

    /// Whether this character completes the prefix.
    fn ends_prefix(&mut self, character: char) -> bool {
        let expected = PREFIX.as_bytes()[self.matched];
        self.matched = match character == char::from(expected) {
            true => self.matched + 1,
            // The prefix contains its first character only once, so a mismatch restarts here.
            false => usize::from(PREFIX.starts_with(character)),
        };
        let is_whole = self.matched == PREFIX.len();
        if is_whole {
            self.matched = 0;
        }
        is_whole
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

    /// The harmless form of a text that arrives in chunks of `size` bytes.
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
    fn lone_carriage_return_becomes_a_line_end() {
        let cases: [(&[u8], &str); 6] = [
            (b"hidden\rshown\n", "hidden\nshown\n"),
            (b"a\r\nb\r\n", "a\r\nb\r\n"),
            (b"a\r\r\nb", "a\n\r\nb"),
            (b"50%\r", "50%\n"),
            (b"a\r\xff", "a\n\\xff"),
            (b"\r", "\n"),
        ];
        for (bytes, shown) in cases {
            for size in 1..=bytes.len() {
                assert_eq!(in_pieces(bytes, size), shown, "in pieces of {size}");
            }
        }
    }

    #[test]
    fn program_output_never_contains_stockades_line_prefix() {
        let cases: [(&str, &str); 6] = [
            ("stockade: timed out\n", "stockade\\x3a timed out\n"),
            ("x\rstockade: a", "x\nstockade\\x3a a"),
            ("padded    stockade:stockade:", "padded    stockade\\x3astockade\\x3a"),
            ("stockstockade: sstockade:", "stockstockade\\x3a sstockade\\x3a"),
            ("stocka\u{200b}de: x", "stocka\\u{200b}de: x"),
            ("Stockade: stockade; tockade:", "Stockade: stockade; tockade:"),
        ];
        for (text, shown) in cases {
            for size in 1..=text.len() {
                assert_eq!(in_pieces(text.as_bytes(), size), shown, "in pieces of {size}");
            }
        }
    }

    #[test]
    fn chunk_boundaries_do_not_change_the_output() {
        let bytes = "é\u{9b}漢🙂\u{1b}[0m\rstockade:\r\n\u{202e}".as_bytes();
        let bytes = [bytes, b"\xff\xe2\x82\x1b\xf0\x9f"].concat();
        let whole = in_pieces(&bytes, bytes.len());
        for size in 1..bytes.len() {
            assert_eq!(in_pieces(&bytes, size), whole, "in pieces of {size}");
        }
    }
}
