//! Errors of a wall, as callers see them.

use std::error::Error as StdError;
use std::fmt;

use crate::Obstacle;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong: a path does not exist, or a program cannot be found.
    Invalid,
    /// The policy has a clause that this wall cannot enforce on this host.
    Unenforceable,
    /// The host does not allow the wall to be built.
    Unavailable,
    /// The maximum number of concurrent programs is running; the same request succeeds later.
    Busy,
    /// The sandbox disappeared while it was in use.
    Lost,
    /// Stockade itself failed.
    Internal,
}

/// A failure of a wall. The message names the operation, and the sources name the cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    remedy: Option<String>,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// An error with the message and sources of another.
    pub fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error { kind, remedy: None, source: source.into() }
    }

    /// Adds advice for the user.
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

    /// Advice for the user, if there is any.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

/// An error with all its sources in one line.
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
