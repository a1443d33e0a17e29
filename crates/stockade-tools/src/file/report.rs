//! What is wrong with a file of tools, where, and what to write instead.

use std::fmt;

use stockade_policy::{Printable, is_harmless};

use crate::words::harmless;

/// The most mistakes that are told.
const MAX_MISTAKES: usize = 50;

/// The longest message or remedy, and the widest part of a line that is shown, in characters.
const MAX_SAID: usize = 500;
const MAX_SHOWN: usize = 100;

/// One mistake in a file of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The name of the file.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// The line, shortened around the column.
    pub source: String,
    /// The marker under it: spaces, then a caret.
    pub marker: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { line, column, message, remedy, source, marker, .. } = self;
        let margin = " ".repeat(line.to_string().len());
        writeln!(formatter, "{}:{line}:{column}: {message}", Printable(&self.file))?;
        writeln!(formatter, "{margin} |")?;
        writeln!(formatter, "{line} | {source}")?;
        writeln!(formatter, "{margin} | {marker}")?;
        write!(formatter, "{margin} = {remedy}")
    }
}

/// Why a file of tools was refused: at least one mistake, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct ToolsFileError {
    mistakes: Vec<Mistake>,
}

impl ToolsFileError {
    /// The mistakes, first to last.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    fn render(&self) -> String {
        let parts: Vec<String> = self.mistakes.iter().map(Mistake::to_string).collect();
        parts.join("\n\n")
    }
}

/// A place in the text, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) const START: Place = Place { line: 1, column: 1 };
}

/// Collects what is wrong with one text.
pub(super) struct Report<'t> {
    file: String,
    lines: Vec<&'t str>,
    mistakes: Vec<Mistake>,
}

impl<'t> Report<'t> {
    pub(super) fn new(file: &str, text: &'t str) -> Report<'t> {
        Report { file: file.to_owned(), lines: text.lines().collect(), mistakes: Vec::new() }
    }

    pub(super) fn mistake(
        &mut self,
        place: Place,
        message: impl AsRef<str>,
        remedy: impl AsRef<str>,
    ) {
        if self.mistakes.len() >= MAX_MISTAKES {
            return;
        }
        let line = place.line.checked_sub(1).and_then(|index| self.lines.get(index)).copied();
        let (source, marker) = excerpt(line.unwrap_or_default(), place.column);
        self.mistakes.push(Mistake {
            file: self.file.clone(),
            line: place.line,
            column: place.column,
            message: harmless(message.as_ref(), MAX_SAID),
            remedy: harmless(remedy.as_ref(), MAX_SAID),
            source,
            marker,
        });
    }

    pub(super) fn has_mistakes(&self) -> bool {
        !self.mistakes.is_empty()
    }

    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, ToolsFileError> {
        match value {
            Some(value) if self.mistakes.is_empty() => Ok(value),
            _ => {
                self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
                Err(ToolsFileError { mistakes: self.mistakes })
            }
        }
    }
}

/// The part of a line around a column and the caret under it, one column for each character.
fn excerpt(line: &str, column: usize) -> (String, String) {
    let before = column.saturating_sub(1);
    let from = before.saturating_sub(MAX_SHOWN / 2);
    let shown = line.chars().skip(from).take(MAX_SHOWN);
    let shown = shown.map(|character| if is_harmless(character) { character } else { '\u{fffd}' });
    (shown.collect(), " ".repeat(before - from) + "^")
}
