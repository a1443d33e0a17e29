//! Describes files.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Stat, readlinkat, statat};
use stockade_wire::{FileDone, FileKind, FileStat, PathBytes};

use super::fault::Fault;
use super::root::{Last, Missing, Root};

/// Describes the file at a path.
pub(super) fn stat(root: &Root, path: &PathBytes, last: Last) -> Result<FileDone, Fault> {
    let place = root.place(path, last, Missing::Fail)?;
    let stat = Some(stat_at(&place.directory, place.name())?);
    Ok(FileDone { stat, ..FileDone::default() })
}

/// Describes a name in a directory; a link is not followed.
pub(super) fn stat_at(directory: &OwnedFd, name: &OsStr) -> Result<FileStat, Fault> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = kind(&found);
    let target = match kind {
        // A link that has changed meanwhile has no target.
        FileKind::Link => readlinkat(directory, name, Vec::new())
            .ok()
            .and_then(|target| PathBytes::try_from(target.into_bytes()).ok()),
        _ => None,
    };
    Ok(FileStat {
        kind,
        bytes: u64::try_from(found.st_size).unwrap_or(0),
        mode: found.st_mode & 0o7777,
        modified: found.st_mtime,
        target,
    })
}

pub(super) fn kind(found: &Stat) -> FileKind {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Special,
    }
}
