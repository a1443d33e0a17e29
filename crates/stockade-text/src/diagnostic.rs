//! Mistakes in a text: what, where, and how to correct them.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::hidden::Hidden;
use crate::{Dialect, Node, Origin, Printable, is_harmless};

/// The most diagnostics for one text: a person fixes the first ones first anyway.
const MAX_DIAGNOSTICS: usize = 50;

/// The longest message or remedy, in characters; longer ones are cut.
const MAX_MESSAGE: usize = 400;

/// The widest part of a source line that is shown, in characters.
const MAX_SHOWN: usize = 100;

/// One mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The name of the text.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// The source line, shortened around the column, control characters escaped.
    pub source: String,
    /// The marker under the source line: spaces, then carets.
    pub marker: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { line, column, message, remedy, source, marker, .. } = self;
        let margin = " ".repeat(line.to_string().len());
        writeln!(f, "{}:{line}:{column}: {message}", Printable(&self.file))?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{line} | {source}")?;
        writeln!(f, "{margin} | {marker}")?;
        write!(f, "{margin} = {remedy}")
    }
}

/// Why a text was refused: at least one diagnostic, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct TextErrors {
    diagnostics: Vec<Diagnostic>,
}

impl TextErrors {
    /// The mistakes, first to last.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Whether only the first mistakes are listed.
    pub fn has_more(&self) -> bool {
        self.diagnostics.len() >= MAX_DIAGNOSTICS
    }

    fn render(&self) -> String {
        let parts: Vec<String> = self.diagnostics.iter().map(Diagnostic::to_string).collect();
        parts.join("\n\n")
    }
}

/// A place in the text being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSpan {
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// How many characters it covers.
    pub width: usize,
}

impl TextSpan {
    /// The start of the text.
    pub const START: TextSpan = TextSpan { line: 1, column: 1, width: 1 };
}

/// Collects the mistakes of one text.
pub struct Report<'t> {
    pub(crate) dialect: &'static Dialect,
    file: Arc<str>,
    lines: Vec<&'t str>,
    /// The lines without surrounding white space, trimmed once: many values may share a long line.
    trimmed: Vec<&'t str>,
    /// The flag that each line was made from, if the user wrote flags instead of a file.
    flags: Vec<Option<String>>,
    /// Each mistake with its place. Lines are quoted at the end, when all hidden values are known.
    found: Vec<(Diagnostic, TextSpan)>,
    hidden: Hidden,
}

impl<'t> Report<'t> {
    pub(crate) fn new(file: &str, text: &'t str, dialect: &'static Dialect) -> Report<'t> {
        let lines: Vec<&str> = text.lines().collect();
        let trimmed = lines.iter().map(|line| line.trim()).collect();
        let (flags, found, hidden) = (Vec::new(), Vec::new(), Hidden::default());
        Report { dialect, file: file.into(), lines, trimmed, flags, found, hidden }
    }

    /// Makes every quoted line show `…` in place of the values in a node, which may be secrets.
    pub fn hide(&mut self, node: &Node) {
        self.hidden.add(node);
    }

    /// Sets the flag that each line was made from; origins then name the flag instead of a line.
    pub fn set_flags(&mut self, flags: &[Option<String>]) {
        self.flags = flags.to_vec();
    }

    /// Adds a mistake; drops it if there are too many already, because the text is refused anyway.
    pub fn mistake(
        &mut self,
        place: TextSpan,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.is_full() {
            return;
        }
        let found = Diagnostic {
            file: self.file.to_string(),
            line: place.line,
            column: place.column,
            message: printable(&message.into()),
            remedy: printable(&remedy.into()),
            source: String::new(),
            marker: String::new(),
        };
        self.found.push((found, place));
    }

    /// Whether further mistakes would be dropped, so that callers need not look for them.
    pub fn is_full(&self) -> bool {
        self.found.len() >= MAX_DIAGNOSTICS
    }

    pub(crate) fn has_mistakes(&self) -> bool {
        !self.found.is_empty()
    }

    /// A place with its source line.
    pub fn origin(&self, place: TextSpan) -> Origin {
        let index = place.line.saturating_sub(1);
        if let Some(Some(flag)) = self.flags.get(index) {
            let text = Printable(flag).to_string().into();
            return Origin { file: self.file.clone(), line: 0, column: 0, text };
        }
        let line = self.trimmed.get(index).copied().unwrap_or("");
        let mut short: String = line.chars().take(MAX_SHOWN).collect();
        if short.len() < line.len() {
            short.push('…');
        }
        Origin {
            file: self.file.clone(),
            line: place.line,
            column: place.column,
            text: Printable(&short).to_string().into(),
        }
    }

    pub(crate) fn line(&self, number: usize) -> &'t str {
        number.checked_sub(1).and_then(|index| self.lines.get(index)).copied().unwrap_or("")
    }

    /// Ends the check: the value, or the mistakes.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, TextErrors> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => {
                let found = std::mem::take(&mut self.found);
                let quoted = found.into_iter().map(|(found, place)| self.quoted(found, place));
                let mut diagnostics: Vec<Diagnostic> = quoted.collect();
                diagnostics.sort_by_key(|found| (found.line, found.column));
                Err(TextErrors { diagnostics })
            }
        }
    }

    /// A mistake with its line, without what must be hidden.
    fn quoted(&self, found: Diagnostic, place: TextSpan) -> Diagnostic {
        let (line, columns) = self.hidden.masked(self.line(place.line), self.dialect);
        let last = columns.len() - 1;
        let column = |column: usize| columns[column.min(last)] + column.saturating_sub(last);
        let start = column(place.column.saturating_sub(1));
        let end = column(place.column.saturating_sub(1) + place.width);
        let shown =
            TextSpan { column: start + 1, width: end.saturating_sub(start).max(1), ..place };
        let (source, marker) = excerpt(&line, shown);
        Diagnostic { source, marker, ..found }
    }
}

/// A message, escaped for printing and cut if it is too long.
fn printable(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", Printable(&text[..end])),
        None => Printable(text).to_string(),
    }
}

/// The part of a line around a place, and the carets under it. Both have one column per character,
/// so that the carets are aligned.
fn excerpt(line: &str, place: TextSpan) -> (String, String) {
    let shown: Vec<char> = line.chars().map(shown_as).collect();
    let start = place.column.saturating_sub(1).min(shown.len());
    let from = if shown.len() <= MAX_SHOWN { 0 } else { start.saturating_sub(MAX_SHOWN / 2) };
    let to = shown.len().min(from + MAX_SHOWN);
    let source: String = shown[from..to].iter().collect();
    let carets = place.width.clamp(1, to.saturating_sub(start).max(1));
    (source, format!("{}{}", " ".repeat(start - from), "^".repeat(carets)))
}

/// A replacement of one column for characters that would shift the line.
fn shown_as(character: char) -> char {
    match character {
        '\t' => '→',
        c if is_harmless(c) => c,
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::PLAIN;

    #[test]
    fn caret_is_under_the_word_with_the_mistake() {
        let mut report = Report::new("p.yaml", "name: x\n  pids: -1\n", &PLAIN);
        report.mistake(TextSpan { line: 2, column: 9, width: 2 }, "bad", "write 1");
        let error = report.finish::<()>(None).unwrap_err();
        let text = "p.yaml:2:9: bad\n  |\n2 |   pids: -1\n  |         ^^\n  = write 1";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let line = format!("{}here{}", "x".repeat(5000), "y".repeat(5000));
        let (source, marker) = excerpt(&line, TextSpan { line: 1, column: 5001, width: 4 });
        assert_eq!(source.chars().count(), MAX_SHOWN);
        let column = marker.find('^').unwrap();
        assert_eq!(&source[column..column + 4], "here");
    }

    #[test]
    fn a_long_message_is_cut() {
        let mut report = Report::new("p", "", &PLAIN);
        report.mistake(TextSpan::START, "x".repeat(5000), "ü".repeat(5000));
        let found = &report.finish::<()>(None).unwrap_err().diagnostics()[0].clone();
        assert_eq!(found.message, format!("{}…", "x".repeat(MAX_MESSAGE)));
        assert_eq!(found.remedy, format!("{}…", "ü".repeat(MAX_MESSAGE)));
    }

    #[test]
    fn terminal_escapes_in_the_text_are_not_repeated() {
        let mut report = Report::new("p\u{1b}]0;x", "a: \u{1b}[31mred", &PLAIN);
        report.mistake(TextSpan { line: 1, column: 1, width: 1 }, "bad \u{1b}[2J", "no \u{7}");
        let text = report.finish::<()>(None).unwrap_err().to_string();
        assert!(text.chars().all(|c| c == '\n' || is_harmless(c)), "{text:?}");
    }
}
