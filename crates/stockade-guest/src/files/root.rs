//! Resolves paths below a root directory, one component at a time.
//!
//! Only descriptors and single names reach the kernel, so that a link that appears at any moment is
//! never followed by accident: links are read as text and resolved here, below the same root. The
//! links of /proc lead nowhere, because their text is no path. As openat2(2) with RESOLVE_IN_ROOT
//! and RESOLVE_NO_MAGICLINKS does, which the filter inside does not allow.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use stockade_wire::{FileFault, PathBytes};

use super::fault::Fault;

/// The maximum number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// For looking at a file without opening it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directory below which paths are resolved.
pub(super) struct Root(OwnedFd);

/// A name in an open directory. The name may not exist.
pub(super) struct Location {
    pub(super) directory: OwnedFd,
    name: Vec<u8>,
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

/// Whether missing directories on the way are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Make,
    Fail,
}

impl Location {
    pub(super) fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }
}

impl Root {
    /// The root directory of this process.
    pub(super) fn of_this_process() -> Result<Root, Fault> {
        Root::at("/")
    }

    pub(super) fn at(path: impl rustix::path::Arg) -> Result<Root, Fault> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root(openat(CWD, path, flags, Mode::empty())?))
    }

    /// Resolves everything but the last component, and the last too if it is a link to follow.
    /// The root itself is `.` in itself.
    pub(super) fn place(
        &self,
        path: &PathBytes,
        last: Last,
        missing: Missing,
    ) -> Result<Location, Fault> {
        let mut waiting: VecDeque<Vec<u8>> = components(path.as_bytes()).collect();
        if waiting.iter().any(|component| component == b"..") {
            return Err(FileFault::Traversal.into());
        }
        // The directories from the root on; `..` in a link goes back to an open one.
        let mut way: Vec<OwnedFd> = vec![self.0.try_clone()?];
        let mut links = 0;
        while let Some(name) = waiting.pop_front() {
            if name == b".." {
                if way.len() > 1 {
                    way.pop();
                }
                continue;
            }
            let here = way.last().ok_or(FileFault::Other)?;
            let is_last = waiting.is_empty();
            let found = match openat(here, name.as_slice(), LOOK, Mode::empty()) {
                Ok(found) => found,
                Err(Errno::NOENT) if is_last => return place(way, name),
                Err(Errno::NOENT) if missing == Missing::Make => {
                    make_directory(here, &name)?;
                    openat(here, name.as_slice(), LOOK, Mode::empty())?
                }
                Err(errno) => return Err(errno.into()),
            };
            match FileType::from_raw_mode(fstat(&found)?.st_mode) {
                FileType::Symlink if !is_last || last == Last::Follow => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Fault::from(Errno::LOOP));
                    }
                    let target = readlinkat(&found, c"", Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        way.truncate(1);
                    }
                    for component in components(&target).collect::<Vec<_>>().into_iter().rev() {
                        waiting.push_front(component);
                    }
                }
                _ if is_last => return place(way, name),
                FileType::Directory => way.push(found),
                _ => return Err(FileFault::NotADirectory.into()),
            }
        }
        // The path names a directory that is already open, such as `/` or `a/..`.
        place(way, b".".to_vec())
    }

    /// Opens a directory for reading.
    pub(super) fn directory(&self, path: &PathBytes, missing: Missing) -> Result<OwnedFd, Fault> {
        let place = self.place(path, Last::Follow, missing)?;
        if missing == Missing::Make {
            make_directory(&place.directory, &place.name)?;
        }
        open_directory(&place.directory, place.name())
    }
}

fn place(mut way: Vec<OwnedFd>, name: Vec<u8>) -> Result<Location, Fault> {
    let directory = way.pop().ok_or(FileFault::Other)?;
    Ok(Location { directory, name })
}

/// Opens a directory for reading; a link is not followed.
pub(super) fn open_directory(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Makes a directory, or finds that something has its name already.
fn make_directory(parent: &OwnedFd, name: &[u8]) -> Result<(), Fault> {
    // The umask removes what others may not do.
    match mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

#[cfg(test)]
#[path = "root_tests.rs"]
mod tests;
