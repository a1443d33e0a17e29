//! Parses bytes to a value, or to a list of all mistakes.

use crate::{Dialect, Node, Report, TextErrors, TextSpan, tree};

/// The longest text that is read at all, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Parses a text and decodes its tree. `name` is the text's name in messages; returns a value only
/// if there are no mistakes.
pub fn parse<T>(
    name: &str,
    bytes: &[u8],
    dialect: &'static Dialect,
    decode: impl FnOnce(&Node, &mut Report<'_>) -> Option<T>,
) -> Result<T, TextErrors> {
    let readable = match readable(bytes, dialect) {
        Ok(readable) => readable,
        Err((place, message, remedy)) => {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT_BYTES)]);
            let mut report = Report::new(name, &shown, dialect);
            report.mistake(place, message, remedy);
            return report.finish(None);
        }
    };
    let mut report = Report::new(name, readable, dialect);
    let value = tree::read(readable, &mut report).and_then(|root| decode(&root, &mut report));
    report.finish(value)
}

/// The bytes as text, if they are valid and not too many.
fn readable<'b>(
    bytes: &'b [u8],
    dialect: &Dialect,
) -> Result<&'b str, (TextSpan, String, &'static str)> {
    if bytes.len() > MAX_TEXT_BYTES {
        let message = format!("the {} is larger than {MAX_TEXT_BYTES} bytes", dialect.name);
        return Err((TextSpan::START, message, "split it, or check that this is the right file"));
    }
    let valid = match std::str::from_utf8(bytes) {
        Ok(valid) => valid,
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let message = format!("the {} is not UTF-8 text", dialect.name);
            return Err((place_after(&before), message, "save it as UTF-8"));
        }
    };
    let valid = valid.strip_prefix('\u{feff}').unwrap_or(valid);
    // Some parsers end a line, and with it a comment, where others do not; and direction marks make
    // a person see another text than the parser reads.
    let strange = valid.char_indices().find(|(_, character)| is_misread(*character));
    if let Some((at, character)) = strange {
        let line = 1 + valid[..at].matches('\n').count();
        let column = 1 + valid[..at].chars().rev().take_while(|before| *before != '\n').count();
        let place = TextSpan { line, column, width: 1 };
        let message = format!(
            "the character U+{:04X} is read differently by other parsers",
            u32::from(character)
        );
        return Err((
            place,
            message,
            "remove it, or write it as an escape in quotes, such as \"\\u2028\"",
        ));
    }
    // A lone carriage return ends a line in YAML, but not in editors.
    let bare = valid.match_indices('\r').find(|(at, _)| !valid[at + 1..].starts_with('\n'));
    if let Some((at, _)) = bare {
        let message = "a carriage return without a line feed".to_owned();
        let remedy = "save the file with ordinary line ends";
        return Err((place_after(&valid[..at]), message, remedy));
    }
    Ok(valid)
}

/// The place of the character after a text.
fn place_after(text: &str) -> TextSpan {
    let last = text.rsplit('\n').next().unwrap_or("");
    let line = 1 + text.matches('\n').count();
    TextSpan { line, column: 1 + last.chars().count(), width: 1 }
}

/// Line ends of YAML 1.1 only, and direction marks.
fn is_misread(character: char) -> bool {
    matches!(character,
        '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
