//! Changes single entries of the host.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, chownat, fchmod, fchown, fstat, fsync,
    ftruncate, mkdirat, openat, renameat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::Proposal;
use super::judge::{hash_of, is_directory};
use crate::base::{HostBase, look, split};
use crate::change::Change;
use crate::view::{Content, EntryKind, TreeEntry, View};
use crate::{Hash, StoreError};

/// How the names of new files start until they are complete.
const TEMPORARY: &str = ".stockade-apply-";

pub(super) enum Failure {
    Host(Errno),
    Store(StoreError),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        Failure::Host(errno)
    }
}

/// Removes one entry; a directory must be empty.
pub(super) fn remove(target: &HostBase, change: &Change) -> Result<(), Errno> {
    let (above, name) = split(&change.path);
    let parent = target.parent(above)?;
    match unlinkat(&parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => unlinkat(&parent, name, AtFlags::REMOVEDIR),
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// Creates or replaces one entry in one step.
pub(super) fn create(
    target: &HostBase,
    view: &View<'_>,
    path: &[u8],
    entry: &TreeEntry,
) -> Result<Option<Hash>, Failure> {
    let (above, name) = split(path);
    let parent = target.parent(above)?;
    let owner = Owner::of(&parent, name)?;
    let temporary = temporary_name()?;
    match &entry.kind {
        EntryKind::Directory { .. } => {
            // Writable for its owner until everything in it is there.
            let mode = Mode::from_raw_mode(entry.mode & 0o777 | 0o700);
            match mkdirat(&parent, name, mode) {
                Ok(()) => {}
                Err(Errno::EXIST) => {
                    let found = look(parent.as_fd(), name)?;
                    if !found.is_some_and(|(entry, _)| is_directory(&entry)) {
                        exchange(&parent, name, &temporary, mode)?;
                    }
                }
                Err(errno) => return Err(errno.into()),
            }
            owner.give(parent.as_fd(), name)?;
            Ok(None)
        }
        EntryKind::Link(link) => {
            symlinkat(link.as_slice(), &parent, temporary.as_slice())?;
            owner.give(parent.as_fd(), &temporary)?;
            renamed(&parent, &temporary, name)?;
            Ok(None)
        }
        EntryKind::File(content) => {
            let flags =
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let private = Mode::from_raw_mode(0o600);
            let opened = File::from(openat(&parent, temporary.as_slice(), flags, private)?);
            let written = fill(&opened, view, content).and_then(|hash| {
                owner.give_open(&opened)?;
                fchmod(&opened, Mode::from_raw_mode(entry.mode & 0o777))?;
                fsync(&opened)?;
                Ok(hash)
            });
            match written {
                Ok(hash) => {
                    renamed(&parent, &temporary, name)?;
                    // The name is durable before the next one changes.
                    fsync(&parent)?;
                    Ok(Some(hash))
                }
                Err(failure) => {
                    let _ = unlinkat(&parent, temporary.as_slice(), AtFlags::empty());
                    Err(failure)
                }
            }
        }
        EntryKind::Special(_) | EntryKind::Other => Ok(None),
    }
}

/// Writes the parts with data, and returns the hash of the whole.
fn fill(opened: &File, view: &View<'_>, content: &Content) -> Result<Hash, Failure> {
    let host =
        |error: std::io::Error| Failure::Host(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    ftruncate(opened, content.size())?;
    match content {
        Content::Stored { chunks, .. } => {
            for chunk in chunks.0.iter() {
                let data = view.blob(chunk).map_err(Failure::Store)?;
                opened.write_all_at(&data, chunk.offset).map_err(host)?;
            }
        }
        Content::Host { size, .. } => {
            let mut offset = 0;
            while offset < *size {
                let length = usize::try_from((1 << 20).min(*size - offset)).unwrap_or(0);
                let mut piece = vec![0; length];
                view.read(content, offset, &mut piece).map_err(Failure::Store)?;
                opened.write_all_at(&piece, offset).map_err(host)?;
                offset += length as u64;
            }
        }
    }
    hash_of(view, content).map_err(Failure::Store)
}

fn renamed(parent: &OwnedFd, temporary: &[u8], name: &[u8]) -> Result<(), Errno> {
    let renamed = renameat(parent, temporary, parent, name);
    if renamed.is_err() {
        let _ = unlinkat(parent, temporary, AtFlags::empty());
    }
    renamed
}

/// Puts a directory in the place of a file in one step.
fn exchange(parent: &OwnedFd, name: &[u8], temporary: &[u8], mode: Mode) -> Result<(), Errno> {
    mkdirat(parent, temporary, mode)?;
    if let Err(errno) = renameat_with(parent, temporary, parent, name, RenameFlags::EXCHANGE) {
        let _ = unlinkat(parent, temporary, AtFlags::REMOVEDIR);
        return Err(errno);
    }
    unlinkat(parent, temporary, AtFlags::empty())
}

fn temporary_name() -> Result<Vec<u8>, Errno> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{TEMPORARY}{:016x}", u64::from_le_bytes(random)).into_bytes())
}

/// The owner of new entries: root's own files would be in the way of the person whose directory
/// it is.
struct Owner(Option<(rustix::fs::Uid, rustix::fs::Gid)>);

impl Owner {
    fn of(parent: &OwnedFd, name: &[u8]) -> Result<Owner, Errno> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Owner(None));
        }
        let found = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => found,
            _ => fstat(parent)?,
        };
        let user = rustix::fs::Uid::from_raw(found.st_uid);
        Ok(Owner(Some((user, rustix::fs::Gid::from_raw(found.st_gid)))))
    }

    fn give(&self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn give_open(&self, opened: &File) -> Result<(), Errno> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        fchown(opened, Some(user), Some(group))
    }
}

/// Removes the new files of a call that was killed before it renamed them.
pub(super) fn sweep(target: &HostBase, proposals: &[Proposal]) {
    let mut directories: Vec<&[u8]> =
        proposals.iter().map(|proposal| split(&proposal.change.path).0).collect();
    directories.dedup();
    for directory in directories {
        let Ok(directory) = target.parent(directory) else { continue };
        let Ok(mut entries) = Dir::read_from(&directory) else { continue };
        while let Some(Ok(entry)) = entries.read() {
            let name = entry.file_name().to_bytes();
            let random = name.strip_prefix(TEMPORARY.as_bytes());
            if random.is_some_and(|it| it.len() == 16 && it.iter().all(u8::is_ascii_hexdigit)) {
                let _ = unlinkat(&directory, name, AtFlags::empty());
            }
        }
    }
}
