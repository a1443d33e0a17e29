//! What can go wrong behind a wall, as callers see it.

use std::error::Error as StdError;
use std::fmt;

use crate::Obstacle;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong: a path that is not there, a program that cannot be found.
    Invalid,
    /// The policy asks for something that this wall cannot hold here.
    Unenforceable,
    /// The host does not let the wall be built.
    Unavailable,
    /// As much runs already as may run at once; the same request succeeds later.
    Busy,
    /// The sandbox went away while it was used.
    Lost,
    /// Stockade itself failed.
    Internal,
}

/// A failure of a wall. The message says what was being done, its sources why it failed.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    remedy: Option<String>,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// An error whose message and sources are those of another.
    pub fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error { kind, remedy: None, source: source.into() }
    }

    /// The same with what a person can do about it.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Error {
        self.remedy = Some(remedy.into());
        self
    }

    /// A refusal for a reason found by probing.
    pub fn obstacle(kind: ErrorKind, obstacle: &Obstacle) -> Error {
        Error::new(kind, obstacle.reason.clone()).with_remedy(obstacle.remedy.clone())
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What a person can do about it, where that is known.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

/// An error with all its reasons in one line.
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        text.push_str(&format!(": {next}"));
        source = next.source();
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}
