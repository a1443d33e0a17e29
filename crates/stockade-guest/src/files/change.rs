//! Makes, moves and removes files.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{AtFlags, Dir, Mode, RenameFlags, mkdirat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use stockade_wire::{FileDone, FileFault, FileKind, PathBytes};

use super::fault::Fault;
use super::list::MAX_DEPTH;
use super::root::{Last, Missing, Root, open_directory};
use super::stat::stat_at;

/// Makes a directory.
pub(super) fn make(root: &Root, path: &PathBytes, parents: bool) -> Result<FileDone, Fault> {
    if parents {
        root.directory(path, Missing::Make)?;
    } else {
        let place = root.place(path, Last::Keep, Missing::Fail)?;
        mkdirat(&place.directory, place.name(), Mode::from_raw_mode(0o777))?;
    }
    Ok(changed(true))
}

/// Renames a file or a directory.
pub(super) fn rename(
    root: &Root,
    from: &PathBytes,
    to: &PathBytes,
    replace: bool,
) -> Result<FileDone, Fault> {
    let from = root.place(from, Last::Keep, Missing::Fail)?;
    let to = root.place(to, Last::Keep, Missing::Make)?;
    match replace {
        true => renameat(&from.directory, from.name(), &to.directory, to.name()),
        false => {
            let flags = RenameFlags::NOREPLACE;
            renameat_with(&from.directory, from.name(), &to.directory, to.name(), flags)
        }
    }?;
    Ok(changed(true))
}

/// Removes a file or a directory. Reports whether it was there.
pub(super) fn remove(root: &Root, path: &PathBytes, recursive: bool) -> Result<FileDone, Fault> {
    let removed = root
        .place(path, Last::Keep, Missing::Fail)
        .and_then(|place| remove_at(&place.directory, place.name(), recursive, MAX_DEPTH));
    match removed {
        Ok(()) => Ok(changed(true)),
        Err(fault) if fault.kind == FileFault::NotFound => Ok(changed(false)),
        Err(fault) => Err(fault),
    }
}

fn remove_at(directory: &OwnedFd, name: &OsStr, recursive: bool, depth: u32) -> Result<(), Fault> {
    if stat_at(directory, name)?.kind != FileKind::Directory {
        return Ok(unlinkat(directory, name, AtFlags::empty())?);
    }
    if recursive {
        let inner = open_directory(directory, name)?;
        empty(&inner, depth.checked_sub(1).ok_or(FileFault::TooLarge)?)?;
    }
    Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

/// Removes everything in a directory. A name that a program replaces meanwhile is tried again.
fn empty(directory: &OwnedFd, depth: u32) -> Result<(), Fault> {
    /// How many times to look for entries that came after the last look.
    const LOOKS: usize = 16;
    for _ in 0..LOOKS {
        let names = names(directory)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            match remove_at(directory, &name, true, depth) {
                Ok(()) => {}
                Err(fault) if is_race(fault) => {}
                Err(fault) => return Err(fault),
            }
        }
    }
    Err(FileFault::NotEmpty.into())
}

/// Whether a program inside changed a name while it was removed.
fn is_race(fault: Fault) -> bool {
    use FileFault::{IsADirectory, NotADirectory, NotEmpty, NotFound, Traversal};
    matches!(fault.kind, NotFound | NotADirectory | IsADirectory | NotEmpty | Traversal)
}

/// Some names in a directory, so that a large one needs little memory.
fn names(directory: &OwnedFd) -> Result<Vec<OsString>, Fault> {
    const AT_ONCE: usize = 4096;
    let mut names = Vec::new();
    let mut entries = Dir::read_from(directory)?;
    while let Some(entry) = entries.read() {
        let entry = entry.map_err(|errno: Errno| Fault::from(errno))?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsString::from_vec(name.to_vec()));
        }
        if names.len() == AT_ONCE {
            break;
        }
    }
    Ok(names)
}

fn changed(changed: bool) -> FileDone {
    FileDone { changed, ..FileDone::default() }
}
