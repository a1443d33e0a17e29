//! Putting something else in front of a path.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, OFlags};
use rustix::mount::MoveMountFlags;

use crate::plan::{Attributes, FileMode};

use super::files::{below, clone_tree, directory, file, flags_of, is_directory, subtree};

const READ_ONLY: Attributes = Attributes { writable: false, executable: false, devices: false };

/// Where a cover stands in the new root until it is attached and its name is removed.
const ASIDE: &str = ".cover";

/// Covers a path with something empty. A path that is not there needs no cover.
pub(super) fn mask(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(place) = place(root, path)? else { return Ok(()) };
    if !is_directory(&place)? {
        return attach_file(root, &place, "");
    }
    let aside = Path::new(ASIDE);
    directory(root, aside, FileMode(0o555))?;
    attach_over(&subtree(root, aside)?, &place)?;
    Ok(rustix::fs::unlinkat(root, aside, AtFlags::REMOVEDIR)?)
}

/// Covers a file with another content. A path that is not there needs none.
pub(super) fn cover(root: &OwnedFd, path: &Path, content: &str) -> io::Result<()> {
    match place(root, path)? {
        Some(place) => attach_file(root, &place, content),
        None => Ok(()),
    }
}

/// Makes a part of the new root read-only.
pub(super) fn read_only(root: &OwnedFd, path: &Path) -> io::Result<()> {
    match place(root, path)? {
        Some(place) => attach_over(&clone_tree(&place)?, &place),
        None => Ok(()),
    }
}

/// Mounts a directory over itself, as it is.
pub(super) fn pin(root: &OwnedFd, path: &Path) -> io::Result<()> {
    match place(root, path)? {
        Some(place) => move_onto(&clone_tree(&place)?, &place),
        None => Ok(()),
    }
}

fn place(root: &OwnedFd, path: &Path) -> io::Result<Option<OwnedFd>> {
    match below(root, path, OFlags::PATH) {
        Ok(place) => Ok(Some(place)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file of the root that no name leads to any more is still there where it is attached.
fn attach_file(root: &OwnedFd, place: &OwnedFd, content: &str) -> io::Result<()> {
    let aside = Path::new(ASIDE);
    file(root, aside, content.as_bytes())?;
    attach_over(&subtree(root, aside)?, place)?;
    Ok(rustix::fs::unlinkat(root, aside, AtFlags::empty())?)
}

fn attach_over(cover: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    stockade_sys::set_tree_attributes(cover.as_fd(), flags_of(READ_ONLY), None)?;
    move_onto(cover, place)
}

fn move_onto(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", place, "", flags)?)
}
