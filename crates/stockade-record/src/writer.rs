//! Appends to a stream: complete lines or nothing.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, ftruncate, openat, renameat};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::list::{finished_name, open_name};
use crate::place::PlaceError;
use crate::{Body, Digest, Event, MAX_LINE_BYTES, SessionId, Time, encode};

/// Space reserved for the final events, after the size limit refused all other events.
const END_BYTES: u64 = 4 * MAX_LINE_BYTES as u64;

/// Why a stream cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Its directory is not acceptable.
    #[error("the record cannot be kept")]
    Place(#[source] PlaceError),
    /// The kernel returned no random bytes for its name.
    #[error("the record cannot be named")]
    Name(#[source] io::Error),
    /// The file cannot be created.
    #[error("the record {} cannot be made", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("the record cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The stream has reached its size limit.
    #[error("the record {} is full: it has {limit} bytes", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The size limit in bytes.
        limit: u64,
    },
    /// The stream has no first event yet, or already has its last.
    #[error("the record takes no event now")]
    Closed,
}

impl WriteError {
    /// Advice for the user.
    pub fn remedy(&self) -> String {
        match self {
            WriteError::Place(error) => error.remedy(),
            WriteError::Name(_) => "see that /dev/urandom works here".to_owned(),
            WriteError::Make { .. } | WriteError::Write { .. } => {
                "make room there with `stockade audit prune`, or keep records elsewhere with \
                 --record DIR"
                    .to_owned()
            }
            WriteError::Full { .. } => {
                "see what was so often tried, with `stockade audit summary`".to_owned()
            }
            WriteError::Closed => "report this as a mistake of Stockade".to_owned(),
        }
    }
}

/// One stream that is being written.
pub(crate) struct Writer {
    directory: Directory,
    file: File,
    session: SessionId,
    /// The size limit, except for the final events.
    limit: u64,
    /// The size of the complete lines.
    length: u64,
    sequence: u64,
    previous: Digest,
}

impl Writer {
    /// Creates the file of a session. The writer holds a lock on it while it is open.
    pub(crate) fn make(
        directory: Directory,
        session: SessionId,
        limit: u64,
    ) -> Result<Writer, WriteError> {
        let name = open_name(&session);
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let made = openat(&directory.descriptor, &name, flags, Mode::RUSR | Mode::WUSR);
        let file = made.map_err(|error| WriteError::Make {
            path: directory.path.join(&name),
            source: error.into(),
        })?;
        // On a file system without locks, readers cannot detect that the stream is being written.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let file = File::from(file);
        let (length, sequence, previous) = (0, 0, Digest::ZERO);
        Ok(Writer { directory, file, session, limit, length, sequence, previous })
    }

    /// The path of the stream while it is written.
    pub(crate) fn open_path(&self) -> PathBuf {
        self.directory.path.join(open_name(&self.session))
    }

    /// The path of the stream when it is finished.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path.join(finished_name(&self.session))
    }

    /// How many events were written.
    pub(crate) fn events(&self) -> u64 {
        self.sequence
    }

    /// Appends one event with one write. Truncates the file again if the write was incomplete.
    pub(crate) fn append(&mut self, body: Body) -> Result<(), WriteError> {
        let most = if body.is_end() { self.limit + END_BYTES } else { self.limit };
        let (sequence, previous, session) = (self.sequence, self.previous, self.session.clone());
        let event = Event { sequence, time: Time::now(), session, body, previous };
        let (line, hash) = encode(&event);
        let length = self.length + u64::try_from(line.len()).unwrap_or(u64::MAX);
        if length > most {
            return Err(WriteError::Full { path: self.open_path(), limit: self.limit });
        }
        if let Err(error) = write_whole(&self.file, &line) {
            // If this also fails, an incomplete line remains, which readers recognize.
            let _ = ftruncate(&self.file, self.length);
            return Err(WriteError::Write { path: self.open_path(), source: error.into() });
        }
        (self.length, self.sequence, self.previous) = (length, sequence + 1, hash);
        Ok(())
    }

    /// Renames a stream that has its last event to the name of a finished one.
    pub(crate) fn finish(&mut self) -> Result<(), WriteError> {
        let (from, to) = (open_name(&self.session), finished_name(&self.session));
        let at = &self.directory.descriptor;
        renameat(at, from, at, to)
            .map_err(|error| WriteError::Write { path: self.open_path(), source: error.into() })
    }
}

fn write_whole(file: &File, line: &[u8]) -> Result<(), Errno> {
    let mut rest = line;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(0) => return Err(Errno::NOSPC),
            // A short write has no error; the next write returns it.
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
