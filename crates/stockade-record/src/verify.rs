//! Whether a stream is what was written.

use std::path::Path;

use crate::list::is_open_name;
use crate::{ReadError, Reader, SessionId, Tail};

/// What came of checking a stream.
#[derive(Debug)]
pub struct Verification {
    /// The session, where its first event could be read.
    pub session: Option<SessionId>,
    /// Whole events whose chain holds, from the first on.
    pub events: u64,
    /// The judgement.
    pub verdict: Verdict,
}

/// Whether a stream is what was written.
#[derive(Debug)]
pub enum Verdict {
    /// Every byte is, from the first event to the last.
    Complete,
    /// It holds up to its last whole event, and has no end: the session is running, or Stockade
    /// was killed.
    Unfinished {
        /// What stands after that event.
        tail: Tail,
        /// Whether somebody still writes.
        is_live: bool,
    },
    /// Something was changed, cut or added.
    Broken {
        /// Where and how.
        error: ReadError,
    },
    /// It was finished, by its name, and its end is gone.
    CutShort {
        /// What stands after the last whole event.
        tail: Tail,
    },
}

impl Verdict {
    /// Whether every whole event is what was written, and nothing is missing that was.
    pub fn holds(&self) -> bool {
        matches!(self, Verdict::Complete | Verdict::Unfinished { .. })
    }

    /// Whether the stream has its end.
    pub fn is_complete(&self) -> bool {
        matches!(self, Verdict::Complete)
    }
}

/// Checks a stream. Fails only when it cannot be read at all.
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
