//! Reads a stream: every line must be complete, in order, and chained to the previous one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::line::decode;
use crate::{Body, Digest, Event, LineError, MAX_LINE_BYTES, SessionId, list};

/// Why a stream is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the record {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is longer than the longest valid line.
    #[error("line {line} is longer than {MAX_LINE_BYTES} bytes")]
    TooLong {
        /// The line, counted from one.
        line: u64,
    },
    /// A line is not an event.
    #[error("line {line} is broken")]
    Line {
        /// The line, counted from one.
        line: u64,
        /// The cause.
        source: LineError,
    },
    /// An event is in the wrong position.
    #[error("line {line} is out of place: {why}")]
    Place {
        /// The line, counted from one.
        line: u64,
        /// What is inconsistent.
        why: &'static str,
    },
}

impl ReadError {
    /// The line that is wrong, counted from one.
    pub fn line(&self) -> Option<u64> {
        match self {
            ReadError::File { .. } => None,
            ReadError::TooLong { line }
            | ReadError::Line { line, .. }
            | ReadError::Place { line, .. } => Some(*line),
        }
    }
}

/// What follows the last complete event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Clean,
    /// An incomplete line.
    Torn {
        /// Its bytes.
        bytes: usize,
    },
}

/// Reads a stream event by event, and checks the chain.
pub struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    /// The bytes of a line whose line feed has not been read yet.
    begun: Vec<u8>,
    read: u64,
    previous: Digest,
    session: Option<SessionId>,
    is_complete: bool,
}

impl Reader {
    /// Opens a stream.
    pub fn open(path: &Path) -> Result<Reader, ReadError> {
        let file =
            list::open(path).map_err(|source| ReadError::File { path: path.to_owned(), source })?;
        Ok(Reader {
            path: path.to_owned(),
            input: BufReader::new(file),
            begun: Vec::new(),
            read: 0,
            previous: Digest::ZERO,
            session: list::session_of(path),
            is_complete: false,
        })
    }

    /// The next complete event. `None` at the current end of the file; a stream that is still being
    /// written may have more later.
    #[expect(clippy::should_implement_trait, reason = "an iterator that ended has no more later")]
    pub fn next(&mut self) -> Result<Option<Event>, ReadError> {
        let line = self.read + 1;
        let limit = MAX_LINE_BYTES.saturating_sub(self.begun.len());
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        // One call reads at most the rest of the longest line.
        (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.begun)
            .map_err(|source| ReadError::File { path: self.path.clone(), source })?;
        if self.begun.last() != Some(&b'\n') {
            return match self.begun.len() < MAX_LINE_BYTES {
                true => Ok(None),
                false => Err(ReadError::TooLong { line }),
            };
        }
        let (event, hash) =
            decode(&self.begun).map_err(|source| ReadError::Line { line, source })?;
        self.check(&event).map_err(|why| ReadError::Place { line, why })?;
        self.begun.clear();
        self.read += 1;
        self.previous = hash;
        self.is_complete = event.body.is_last();
        self.session.get_or_insert_with(|| event.session.clone());
        Ok(Some(event))
    }

    /// Whether the last event of the stream was read.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// How many events were read.
    pub fn events(&self) -> u64 {
        self.read
    }

    /// What follows the events that were read, after [`Reader::next`] returned `None`.
    pub fn tail(&self) -> Tail {
        match self.begun.len() {
            0 => Tail::Clean,
            bytes => Tail::Torn { bytes },
        }
    }

    /// Whether a process is still writing to the stream.
    pub fn is_live(&self) -> bool {
        list::is_written(self.input.get_ref())
    }

    fn check(&self, event: &Event) -> Result<(), &'static str> {
        let is_first = self.read == 0;
        if self.is_complete {
            return Err("it comes after the end of the session");
        }
        if event.sequence != self.read {
            return Err("its number is not the next one");
        }
        if event.previous != self.previous {
            return Err("it does not follow the line before");
        }
        if self.session.as_ref().is_some_and(|session| *session != event.session) {
            return Err("it belongs to another session");
        }
        match (&event.body, is_first) {
            (Body::SessionStarted(_), false) => Err("the session has begun already"),
            (Body::SessionStarted(start), true) if !start.command.has_own_hash() => {
                Err("argv_sha256 is not the hash of its argv")
            }
            (Body::SessionStarted(_), true) => Ok(()),
            (_, true) => Err("a stream begins with the start of its session"),
            (Body::SessionEnded(end), false) if end.events != self.read => {
                Err("it counts another number of events")
            }
            (_, false) => Ok(()),
        }
    }
}
