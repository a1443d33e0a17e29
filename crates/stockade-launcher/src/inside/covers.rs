//! Covers paths with other content.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::MoveMountFlags;

use crate::plan::{Attributes, FileMode};

use super::files::{below, clone_tree, directory, flags_of, is_directory};

const READ_ONLY: Attributes = Attributes { writable: false, executable: false, devices: false };

/// The directory of the covers; the later mount of `/dev/pts` hides it.
const STORE: &str = "/dev/pts";

/// Covers for paths, each cloned from one read-only mount.
pub(super) struct Covers {
    /// The directory in which covers are created.
    store: OwnedFd,
    /// The read-only mount of that directory, from which covers are cloned.
    read_only: OwnedFd,
    made: usize,
}

impl Covers {
    /// Creates the directory in the new root while the root is empty.
    pub(super) fn new(root: &OwnedFd) -> io::Result<Covers> {
        let place = Path::new(STORE);
        directory(root, place, FileMode(0o755))?;
        let store = below(root, place, OFlags::PATH | OFlags::DIRECTORY)?;
        let read_only = clone_tree(&store)?;
        stockade_sys::set_tree_attributes(read_only.as_fd(), flags_of(READ_ONLY), None)?;
        rustix::fs::mkdirat(&store, NO_FILES, Mode::from_raw_mode(0o555))?;
        let covers = Covers { store, read_only, made: 0 };
        covers.make(NO_BYTES, "")?;
        move_onto(&covers.read_only, &covers.store)?;
        Ok(covers)
    }

    /// An empty directory.
    pub(super) fn no_files(&self) -> io::Result<OwnedFd> {
        below(&self.store, Path::new(NO_FILES), OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Covers a path with an empty directory or file. Does nothing if the path does not exist.
    pub(super) fn mask(&self, root: &OwnedFd, path: &Path) -> io::Result<()> {
        let Some(place) = place(root, path)? else { return Ok(()) };
        let name = if is_directory(&place)? { NO_FILES } else { NO_BYTES };
        move_onto(&self.copy(name)?, &place)
    }

    /// Covers a file with other content. Does nothing if the path does not exist.
    pub(super) fn cover(&mut self, root: &OwnedFd, path: &Path, content: &str) -> io::Result<()> {
        let Some(place) = place(root, path)? else { return Ok(()) };
        let name = self.made.to_string();
        self.made += 1;
        self.make(&name, content)?;
        move_onto(&self.copy(&name)?, &place)
    }

    fn make(&self, name: &str, content: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.store, name, flags, Mode::from_raw_mode(0o444))?;
        File::from(made).write_all(content.as_bytes())
    }

    fn copy(&self, name: &str) -> io::Result<OwnedFd> {
        clone_tree(&below(&self.read_only, Path::new(name), OFlags::PATH)?)
    }
}

/// Names of the empty directory and the empty file.
const NO_FILES: &str = "no-files";
const NO_BYTES: &str = "no-bytes";

/// Makes a part of the new root read-only.
pub(super) fn read_only(root: &OwnedFd, path: &Path) -> io::Result<()> {
    match place(root, path)? {
        Some(place) => {
            let same = clone_tree(&place)?;
            stockade_sys::set_tree_attributes(same.as_fd(), flags_of(READ_ONLY), None)?;
            move_onto(&same, &place)
        }
        None => Ok(()),
    }
}

/// Mounts a directory over itself, unchanged.
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

fn move_onto(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", place, "", flags)?)
}
