//! Removes a directory that a hostile program has filled.
//!
//! Does not follow links. Handles any depth and any length of names, because it moves each
//! subdirectory to the top before it descends into it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Removes a directory with everything below it. A missing directory is not an error.
///
/// No other process may use the directory. The caller must own it or have root's rights to files.
pub fn remove_tree(directory: &Path) -> io::Result<()> {
    let top = match open(CWD, directory) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut number: u64 = 0;
    loop {
        let mut found = false;
        for name in names(top.as_fd())? {
            found = true;
            empty_into(&top, &name, &mut number)?;
        }
        if !found {
            break;
        }
    }
    match rustix::fs::rmdir(directory) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes one entry of the top. Moves its subdirectories to the top.
fn empty_into(top: &OwnedFd, name: &CStr, number: &mut u64) -> io::Result<()> {
    if remove(top.as_fd(), name)? {
        return Ok(());
    }
    let directory = open_own(top, name)?;
    for child in names(directory.as_fd())? {
        if remove(directory.as_fd(), &child)? {
            continue;
        }
        loop {
            *number += 1;
            let fresh = format!("stockade-{number}");
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&directory, &*child, top, fresh, flags) {
                Ok(()) => break,
                Err(Errno::EXIST) => {}
                // The owner needs write permission on a moved directory, because its `..` changes.
                Err(Errno::ACCESS) => allow(directory.as_fd(), &child)?,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR)?)
}

/// Removes an entry. Returns false for a directory that is not empty.
fn remove(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let found = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => FileType::from_raw_mode(found.st_mode),
        Err(Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let flags = match found {
        FileType::Directory => AtFlags::REMOVEDIR,
        _ => AtFlags::empty(),
    };
    match rustix::fs::unlinkat(parent, name, flags) {
        // ENOENT: another process has removed it.
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory that may be unreadable for its owner.
fn open_own(top: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        // Also if it is readable: removing its entries needs write permission.
        allow(top.as_fd(), name)?;
    }
    Ok(open(top.as_fd(), name)?)
}

/// Gives the owner all permissions on a directory; does not follow links.
fn allow(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let same = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(rustix::fs::chmod(same, Mode::RWXU)?)
}

fn open(parent: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// The entries of a directory, without `.` and `..`.
fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn deep_tree_with_links_and_unreadable_directories_is_removed_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = scratch.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "kept").unwrap();
        let top = scratch.path().join("top");
        fs::create_dir(&top).unwrap();
        symlink(&kept, top.join("link")).unwrap();
        fs::create_dir_all(top.join("closed/below")).unwrap();
        fs::write(top.join("closed/below/file"), "").unwrap();
        fs::write(top.join("stockade-1"), "a name that moving would take").unwrap();
        for mode in [0o500, 0] {
            let place = if mode == 0 { "closed/below" } else { "closed" };
            fs::set_permissions(top.join(place), fs::Permissions::from_mode(mode)).ok();
        }
        // Deeper than PATH_MAX allows and than there are descriptors.
        let mut here = open(CWD, &top).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
            here = open(here.as_fd(), "d").unwrap();
        }
        drop(here);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read(kept.join("file")).unwrap(), b"kept");
        remove_tree(&top).unwrap();
    }
}
