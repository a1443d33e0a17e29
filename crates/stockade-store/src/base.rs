//! A directory of the host, read without following a link.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2,
    readlinkat, statat,
};
use rustix::io::Errno;
use stockade_archive::tree::Time;

use crate::error::file;
use crate::view::{Content, EntryKind, TreeEntry};
use crate::{Limits, StoreError};

/// Never out of the directory, and never through a link.
pub(crate) const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// A directory of the host.
#[derive(Debug)]
pub struct HostBase {
    directory: OwnedFd,
    path: PathBuf,
}

impl HostBase {
    /// Opens a directory. The path itself is the caller's and may have links.
    pub fn open(path: &Path) -> Result<HostBase, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, path, flags, Mode::empty());
        let directory = opened.map_err(|errno| file("open", path)(errno.into()))?;
        Ok(HostBase { directory, path: path.to_owned() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Opens a directory below it; the empty path is itself.
    pub(crate) fn parent(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b".".as_slice() } else { path };
        // Without NOFOLLOW: a link at the end is then ELOOP and not ENOTDIR.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(&self.directory, path, flags, Mode::empty(), BENEATH)
    }

    /// What is at a path; `None` also if a link is on the way.
    pub(crate) fn get(&self, path: &[u8]) -> Result<Option<TreeEntry>, StoreError> {
        let (above, name) = split(path);
        let parent = match self.parent(above) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(errno) => return Err(file("read", &self.path)(errno.into())),
        };
        let found =
            look(parent.as_fd(), name).map_err(|errno| file("read", &self.path)(errno.into()))?;
        Ok(found.map(|(entry, _)| entry))
    }

    /// Adds the paths of everything below a directory.
    pub(crate) fn below(&self, path: &[u8], paths: &mut Vec<Vec<u8>>) -> Result<(), StoreError> {
        let mut waiting = vec![path.to_vec()];
        while let Some(path) = waiting.pop() {
            let Ok(directory) = self.parent(&path) else { continue };
            let failed = |errno: Errno| file("read", &self.path)(errno.into());
            let mut entries = Dir::read_from(&directory).map_err(failed)?;
            while let Some(entry) = entries.read() {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let inner = [&path, b"/".as_slice(), name].concat();
                if paths.len() as u64 > Limits::MOST.entries {
                    return Err(StoreError::TooManyEntries { most: Limits::MOST.entries });
                }
                paths.push(inner.clone());
                waiting.push(inner);
            }
        }
        Ok(())
    }
}

/// The directory above, and the name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// How often to retry a name that another process replaces meanwhile.
const LOOKS: usize = 100;

/// Describes a name in a directory.
pub(crate) fn look(
    parent: BorrowedFd<'_>,
    name: &[u8],
) -> Result<Option<(TreeEntry, Stat)>, Errno> {
    let mut found = look_once(parent, name);
    for _ in 1..LOOKS {
        // What was a link, a file or there at the first call was not at the second one.
        if !matches!(found, Err(Errno::INVAL | Errno::LOOP | Errno::NOENT | Errno::NXIO)) {
            break;
        }
        found = look_once(parent, name);
    }
    found
}

fn look_once(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Option<(TreeEntry, Stat)>, Errno> {
    let found = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => EntryKind::Directory { replaces: false },
        FileType::Symlink => EntryKind::Link(readlinkat(parent, name, Vec::new())?.into_bytes()),
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = File::from(openat(parent, name, flags, Mode::empty())?);
            let again = fstat(&opened)?;
            match FileType::from_raw_mode(again.st_mode) {
                FileType::RegularFile => {
                    let size = u64::try_from(again.st_size).unwrap_or(0);
                    EntryKind::File(Content::Host { file: Arc::new(opened), size })
                }
                _ => EntryKind::Other,
            }
        }
        _ => EntryKind::Other,
    };
    let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
    let modified = Time { seconds: found.st_mtime, nanoseconds };
    Ok(Some((TreeEntry { kind, mode: found.st_mode & 0o7777, modified }, found)))
}
