//! Opens and describes entries by descriptor, also those whose owner took away every right.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Mode, OFlags, Stat, chmodat, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query,
    fstat, openat,
};
use rustix::io::Errno;

use super::record::{Metadata, Time, may_carry};

/// Opens a directory for reading; a link is not followed.
pub(super) fn directory(parent: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    with_rights(parent, name, mode, 0o700, || openat(parent, name, flags, Mode::empty()))
}

/// Opens a regular file for reading; a link is not followed, and nothing blocks.
pub(super) fn file(parent: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    with_rights(parent, name, mode, 0o400, || openat(parent, name, flags, Mode::empty()))
        .map(File::from)
}

/// Opens an entry. If its owner may not, gives the owner the rights for the moment of opening.
fn with_rights(
    parent: BorrowedFd<'_>,
    name: &[u8],
    mode: u32,
    rights: u32,
    open: impl Fn() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    match open() {
        Err(Errno::ACCESS) => {}
        opened => return opened,
    }
    let bits = |mode| Mode::from_raw_mode(mode & 0o1777);
    chmodat(parent, name, bits(mode | rights), AtFlags::empty())?;
    let opened = open();
    chmodat(parent, name, bits(mode), AtFlags::empty())?;
    opened
}

/// The metadata of an open entry.
pub(super) fn metadata(entry: BorrowedFd<'_>, found: &Stat) -> Result<Metadata, Errno> {
    let mut metadata = Metadata::new(found.st_mode, modified(found));
    let mut names = list(entry)?;
    names.sort();
    for name in names.into_iter().filter(|name| may_carry(name)) {
        let value = value(entry, &name)?;
        metadata.attributes.push((name, value));
    }
    Ok(metadata)
}

/// Whether an open directory of an overlay shows entries of a lower layer too. An overlay reports one
/// link for such a directory, and every other directory has two or more; the attribute by which it
/// knows is readable only for the user who mounted it.
pub(super) fn is_merged(entry: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fstat(entry)?.st_nlink == 1)
}

pub(super) fn modified(found: &Stat) -> Time {
    let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
    Time { seconds: found.st_mtime, nanoseconds }
}

fn list(entry: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let needed = match flistxattr_query(entry) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        needed => needed?,
    };
    let mut names = vec![0_u8; needed];
    let length = flistxattr(entry, names.as_mut_slice())?;
    names.truncate(length);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn value(entry: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let name = OsStr::from_bytes(name);
    let needed = fgetxattr_query(entry, name)?;
    if needed == 0 {
        return Ok(Vec::new());
    }
    let mut value = vec![0_u8; needed];
    let length = fgetxattr(entry, name, value.as_mut_slice())?;
    value.truncate(length);
    Ok(value)
}

/// A copy of a descriptor.
pub(super) fn copy(fd: &impl AsFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}
