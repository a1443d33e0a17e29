//! Turns what the guest answers into the types of a wall.

use std::error::Error as StdError;

use stockade_provider::{
    FileChange, FileChangeKind, FileEntry, FileError, FileErrorKind, FileKind, FileOperation,
    FilePath, FileStat,
};
use stockade_wire::{self as wire, FileFailure, FileFault};

use super::super::LinkError;

/// What an operation is about, for its errors.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) operation: FileOperation,
    pub(super) path: FilePath,
}

impl Subject {
    pub(super) fn of(&self, kind: FileErrorKind) -> FileError {
        FileError { operation: self.operation, path: self.path.clone(), kind, source: None }
    }

    pub(super) fn failed(
        &self,
        kind: FileErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> FileError {
        FileError { source: Some(source.into()), ..self.of(kind) }
    }

    pub(super) fn link_failed(&self, error: LinkError) -> FileError {
        let kind = match error {
            LinkError::TooManyStreams { .. } => FileErrorKind::Busy,
            _ => FileErrorKind::Lost,
        };
        self.failed(kind, error)
    }

    pub(super) fn breach(&self, what: &'static str) -> FileError {
        self.link_failed(LinkError::Breach { what })
    }

    /// An error that the guest reports. Its path names an entry of a tree or an archive.
    pub(super) fn refused(&self, failure: &FileFailure) -> FileError {
        let kind = kind(failure.fault);
        let cause = failure.errno.map(|errno| std::io::Error::from_raw_os_error(errno).to_string());
        // The kind has that information already, except for the last.
        let cause = cause.filter(|_| kind == FileErrorKind::Other);
        let inside = FilePath::new(failure.path.as_bytes()).ok();
        let inside = inside.filter(|inside| !inside.as_bytes().ends_with(self.path.as_bytes()));
        match (inside, cause) {
            (None, None) => self.of(kind),
            (None, Some(cause)) => self.failed(kind, cause),
            (Some(inside), None) => self.failed(kind, format!("at {inside}")),
            (Some(inside), Some(cause)) => self.failed(kind, format!("at {inside}: {cause}")),
        }
    }
}

fn kind(fault: FileFault) -> FileErrorKind {
    match fault {
        FileFault::NotFound => FileErrorKind::NotFound,
        FileFault::Exists => FileErrorKind::Exists,
        FileFault::NotADirectory => FileErrorKind::NotADirectory,
        FileFault::IsADirectory => FileErrorKind::IsADirectory,
        FileFault::NotEmpty => FileErrorKind::NotEmpty,
        FileFault::Traversal => FileErrorKind::Traversal,
        FileFault::Permission => FileErrorKind::Permission,
        FileFault::Quota => FileErrorKind::Quota,
        FileFault::TooLarge => FileErrorKind::TooLarge,
        FileFault::NameTooLong => FileErrorKind::NameTooLong,
        FileFault::SpecialFile => FileErrorKind::SpecialFile,
        FileFault::Busy => FileErrorKind::Busy,
        FileFault::CrossesMounts => FileErrorKind::CrossesMounts,
        FileFault::Archive => FileErrorKind::Archive,
        FileFault::Incomplete => FileErrorKind::Incomplete,
        FileFault::Other => FileErrorKind::Other,
    }
}

/// An entry of a list, if its path is below the listed directory.
pub(super) fn entry(entry: wire::FileEntry) -> Result<FileEntry, &'static str> {
    let path = FilePath::below(entry.path.as_bytes());
    let path = path.map_err(|_| "it listed a name that no directory has")?;
    Ok(FileEntry { path, stat: stat(entry.stat) })
}

pub(super) fn stat(stat: wire::FileStat) -> FileStat {
    let kind = match stat.kind {
        wire::FileKind::File => FileKind::File,
        wire::FileKind::Directory => FileKind::Directory,
        wire::FileKind::Link => FileKind::Link,
        wire::FileKind::Special => FileKind::Special,
    };
    let (bytes, mode, modified) = (stat.bytes, stat.mode & 0o7777, stat.modified);
    let target = stat.target.map(|target| target.as_bytes().to_vec());
    FileStat { kind, bytes, mode, modified, target }
}

/// A change, or `None` if it reports that the watch holds.
pub(super) fn change(change: wire::FileChange) -> Result<Option<FileChange>, &'static str> {
    let kind = match change.kind {
        wire::FileChangeKind::Ready => return Ok(None),
        wire::FileChangeKind::Created => FileChangeKind::Created,
        wire::FileChangeKind::Modified => FileChangeKind::Modified,
        wire::FileChangeKind::Removed => FileChangeKind::Removed,
        wire::FileChangeKind::Lost => FileChangeKind::Lost,
    };
    let path = match change.path.as_bytes() {
        [] => None,
        bytes => Some(FilePath::below(bytes).map_err(|_| "it reported a name that cannot be")?),
    };
    Ok(Some(FileChange { kind, path }))
}
