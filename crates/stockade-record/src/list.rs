//! Lists the records in a directory.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::place::{PlaceError, RecordDirectory};
use crate::{SessionId, Time};

const FINISHED: &str = ".jsonl";
const OPEN: &str = ".open.jsonl";

/// One record in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The session.
    pub session: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// Whether it has the name of a finished stream.
    pub is_finished: bool,
}

/// Why records cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The directory is not acceptable.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It cannot be read.
    #[error("cannot list the records in {}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The records at a place, oldest first; empty if the directory does not exist.
pub fn list(place: &RecordDirectory) -> Result<Vec<Listed>, ListError> {
    let Some(directory) = Directory::open(place)? else { return Ok(Vec::new()) };
    let unread =
        |error: Errno| ListError::Read { path: directory.path.clone(), source: error.into() };
    let mut found = Vec::new();
    for entry in Dir::read_from(&directory.descriptor).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if let Some((session, is_finished)) = parse(name) {
            found.push(Listed { session, path: directory.path.join(name), is_finished });
        }
    }
    found.sort();
    Ok(found)
}

impl Listed {
    /// Whether the session started before a time, by its id.
    pub fn is_before(&self, time: Time) -> bool {
        self.session.as_str() < time.digits().as_str()
    }

    /// Whether a process is still writing to it.
    pub fn is_live(&self) -> bool {
        !self.is_finished && open(&self.path).is_ok_and(|file| is_written(&file))
    }
}

/// Whether a process holds the writer's lock of a stream.
pub(crate) fn is_written(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        Err(error) => error == Errno::WOULDBLOCK,
    }
}

/// Opens a stream for reading: only a regular file, never a link, and without blocking.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")),
    }
}

/// The file name of a stream while it is written.
pub(crate) fn open_name(session: &SessionId) -> String {
    format!("{session}{OPEN}")
}

/// The file name of a finished stream.
pub(crate) fn finished_name(session: &SessionId) -> String {
    format!("{session}{FINISHED}")
}

/// Whether a file has the name of an unfinished stream.
pub(crate) fn is_open_name(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(OPEN))
}

/// The session id in a file's name.
pub(crate) fn session_of(path: &Path) -> Option<SessionId> {
    path.file_name().and_then(OsStr::to_str).and_then(parse).map(|(session, _)| session)
}

fn parse(name: &str) -> Option<(SessionId, bool)> {
    let (stem, is_finished) = match name.strip_suffix(OPEN) {
        Some(stem) => (stem, false),
        None => (name.strip_suffix(FINISHED)?, true),
    };
    Some((SessionId::parse(stem).ok()?, is_finished))
}
