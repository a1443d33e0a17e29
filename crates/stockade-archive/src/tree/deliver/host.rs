//! Single entries of a host directory: made in one step, or removed, by their names.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::MODE;
use crate::beneath;

/// How the names of new entries start for the moment before they get their own.
pub(super) const TEMPORARY: &str = ".stockade-copy-";

/// A file that is being written. It has no name, so that it disappears with this process, unless the
/// file system has no such files.
pub(super) struct New<'d> {
    pub(super) file: File,
    here: BorrowedFd<'d>,
    temporary: Option<Vec<u8>>,
}

impl New<'_> {
    pub(super) fn create(here: BorrowedFd<'_>) -> Result<New<'_>, Errno> {
        let (flags, mode) = (OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
        match openat(here, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => Ok(New { file: file.into(), here, temporary: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let temporary = temporary()?;
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file = openat(here, temporary.as_slice(), flags, mode)?;
                Ok(New { file: file.into(), here, temporary: Some(temporary) })
            }
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn put(self, name: &[u8]) -> Result<(), Errno> {
        if let Some(temporary) = &self.temporary {
            return renameat(self.here, temporary.as_slice(), self.here, name);
        }
        let opened = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        put(self.here, name, |temporary| {
            linkat(CWD, opened.as_str(), self.here, temporary, AtFlags::SYMLINK_FOLLOW)
        })
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Fails after a rename.
            let _ = unlinkat(self.here, temporary.as_slice(), AtFlags::empty());
        }
    }
}

/// Makes an entry under a temporary name and renames it, so that its name has the whole of it.
pub(super) fn put(
    here: BorrowedFd<'_>,
    name: &[u8],
    make: impl FnOnce(&[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let temporary = temporary()?;
    let renamed = make(&temporary).and_then(|()| renameat(here, temporary.as_slice(), here, name));
    // Also after a success: a rename to another name of the same file does nothing.
    let _ = unlinkat(here, temporary.as_slice(), AtFlags::empty());
    renamed
}

fn temporary() -> Result<Vec<u8>, Errno> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{TEMPORARY}{:016x}", u64::from_le_bytes(random)).into_bytes())
}

/// What the host has at a name; a link is not followed.
pub(super) fn kind(here: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileType>, Errno> {
    match statat(here, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The permissions of a new file. A copy has only the right to execute of a file of the host, so a
/// changed file keeps the others.
pub(super) fn permissions(here: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<u32, Errno> {
    match statat(here, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => {
            let kept = found.st_mode & 0o666;
            let executable = if mode & 0o100 == 0 { 0 } else { kept >> 2 & 0o111 };
            Ok(kept | executable)
        }
        Ok(_) | Err(Errno::NOENT) => Ok(mode & MODE),
        Err(errno) => Err(errno),
    }
}

/// Removes an entry of the host with everything below it, if it is there. Unlike inside, gives no
/// rights to a directory that lacks them: that would need its name once more.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &[u8], depth: usize) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    let inner = beneath::open(parent, name)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&inner)? {
        names.push(entry?.file_name().to_owned());
    }
    for name in names.iter().map(|name| name.to_bytes()) {
        if !matches!(name, b"." | b"..") {
            remove(inner.as_fd(), name, depth)?;
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}
