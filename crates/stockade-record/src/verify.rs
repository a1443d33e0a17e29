//! Checks whether a stream was changed after it was written.

use std::path::Path;

use crate::list::is_open_name;
use crate::{ReadError, Reader, SessionId, Tail};

/// The result of checking a stream.
#[derive(Debug)]
pub struct Verification {
    /// The session, if its first event could be read.
    pub session: Option<SessionId>,
    /// The number of complete events, from the first, whose chain is valid.
    pub events: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Whether a stream is unchanged.
#[derive(Debug)]
pub enum Verdict {
    /// Every byte is unchanged, from the first event to the last.
    Complete,
    /// It is valid up to its last complete event, and has no end: the session is running, or
    /// Stockade was killed.
    Unfinished {
        /// What follows that event.
        tail: Tail,
        /// Whether a process is still writing.
        is_live: bool,
    },
    /// Bytes were changed, removed or added.
    Broken {
        /// Where and how.
        error: ReadError,
    },
    /// Its file name marks it as finished, but its end is missing.
    CutShort {
        /// What follows the last complete event.
        tail: Tail,
    },
}

impl Verdict {
    /// Whether every complete event is unchanged, and no written event is missing.
    pub fn holds(&self) -> bool {
        matches!(self, Verdict::Complete | Verdict::Unfinished { .. })
    }

    /// Whether the stream has its last event.
    pub fn is_complete(&self) -> bool {
        matches!(self, Verdict::Complete)
    }
}

/// Checks a stream. Fails only if it cannot be read at all.
pub fn verify(path: &Path) -> Result<Verification, ReadError> {
    let mut reader = Reader::open(path)?;
    let mut session = None;
    let verdict = loop {
        match reader.next() {
            Ok(Some(event)) => session = session.or(Some(event.session)),
            Ok(None) => break judge(path, &reader),
            Err(error @ ReadError::File { .. }) => return Err(error),
            Err(error) => break Verdict::Broken { error },
        }
    };
    Ok(Verification { session, events: reader.events(), verdict })
}

fn judge(path: &Path, reader: &Reader) -> Verdict {
    let tail = reader.tail();
    match (reader.is_complete(), tail) {
        (true, Tail::Clean) => Verdict::Complete,
        (true, Tail::Torn { .. }) => Verdict::Broken {
            error: ReadError::Place {
                line: reader.events() + 1,
                why: "it comes after the end of the session",
            },
        },
        (false, _) if is_open_name(path) => Verdict::Unfinished { tail, is_live: reader.is_live() },
        (false, _) => Verdict::CutShort { tail },
    }
}
