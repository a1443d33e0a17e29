//! A directory that an image is unpacked into. Names are resolved by the kernel as if it were `/`:
//! no link of the image leads out of it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat, openat2, readlink,
    statat, unlinkat,
};
use rustix::io::Errno;

/// How many directories may be inside each other, also where links lead deeper than names show.
pub(crate) const MOST_DEPTH: usize = 128;

/// Below the root, through links of the image only, and never into another file system.
const BELOW: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory of the tree; links of the image are followed inside the tree.
pub(crate) fn directory(root: BorrowedFd<'_>, path: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
    match path.is_empty() {
        true => openat(root, ".", DIRECTORY, Mode::empty()),
        false => openat2(root, joined(path).as_path(), DIRECTORY, Mode::empty(), BELOW),
    }
}

/// Opens a directory of the tree, and makes those that are missing. Returns how many it made.
pub(crate) fn made_directory(
    root: BorrowedFd<'_>,
    path: &[&[u8]],
) -> rustix::io::Result<(OwnedFd, u64)> {
    match directory(root, path) {
        Err(Errno::NOENT) => {}
        opened => return opened.map(|open| (open, 0)),
    }
    let (last, above) = path.split_last().ok_or(Errno::NOENT)?;
    let (parent, made) = made_directory(root, above)?;
    let mode = Mode::from_raw_mode(0o755);
    // EEXIST is a link to nothing, which no later entry may fill.
    mkdirat(&parent, OsStr::from_bytes(last), mode)?;
    let open =
        openat(&parent, OsStr::from_bytes(last), DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    // The umask may have narrowed it.
    fchmod(&open, mode)?;
    Ok((open, made + 1))
}

/// How deep an open directory is below the root.
pub(crate) fn depth(root: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> rustix::io::Result<usize> {
    let path = |descriptor: BorrowedFd<'_>| {
        readlink(format!("/proc/self/fd/{}", descriptor.as_raw_fd()), Vec::new())
    };
    let parts = |path: &[u8]| path.split(|byte| *byte == b'/').count();
    let (root, directory) = (path(root)?, path(directory)?);
    Ok(parts(directory.as_bytes()).saturating_sub(parts(root.as_bytes())))
}

/// Removes a name with everything below it. Follows no link.
pub(crate) fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
        Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::Directory => {
            return unlinkat(parent, name, AtFlags::empty());
        }
        Ok(_) => {}
    }
    let directory = openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    empty(directory.as_fd())?;
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes everything in a directory.
pub(crate) fn empty(directory: BorrowedFd<'_>) -> rustix::io::Result<()> {
    for name in names(directory)? {
        remove(directory, &name)?;
    }
    Ok(())
}

fn names(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

fn joined(path: &[&[u8]]) -> std::path::PathBuf {
    Path::new(OsStr::from_bytes(&path.join(&b'/'))).to_owned()
}
