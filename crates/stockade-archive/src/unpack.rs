//! Unpacks an archive into a directory.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, linkat, openat, symlinkat, unlinkat};
use rustix::io::Errno;

use crate::beneath::{components, directory, stays};
use crate::entries::{ArchiveEntry, Entries, EntryKind, refused};
use crate::error::{ArchiveError, Refusal};

/// How much an archive may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of entries.
    pub entries: u64,
    /// The maximum size of all content.
    pub bytes: u64,
}

/// Which symbolic links are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Any: the directory is inside a sandbox, from which no link leads out.
    Any,
    /// Those that stay below the directory; others are left out.
    Below,
}

/// The first component of the names in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rename {
    /// As in the archive, which may have several.
    Keep,
    /// This name; the archive must have only one.
    To(Vec<u8>),
    /// None: what the one directory of the archive contains is unpacked.
    Strip,
}

/// What was unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// How many entries were unpacked.
    pub entries: u64,
    /// The size of all content.
    pub bytes: u64,
    /// How many entries were left out.
    pub left_out: u64,
    /// The first of them, and why.
    pub examples: Vec<(Vec<u8>, Refusal)>,
}

/// Unpacks an archive below a directory, and replaces files and links of the same names.
///
/// Files get the mode 0644 or 0755, and the owner of this process. Follows no link, whether it was
/// there before, came with the archive, or appears while this runs.
pub fn unpack(
    archive: impl Read,
    root: BorrowedFd<'_>,
    rename: Rename,
    links: Links,
    limits: Limits,
) -> Result<Unpacked, ArchiveError> {
    let mut entries = Entries::new(archive);
    let (hasher, seen) = (RandomState::new(), HashSet::new());
    let first = None;
    let mut unpacking =
        Unpacking { root, rename, first, links, limits, hasher, seen, done: Unpacked::default() };
    while let Some(entry) = entries.next_entry()? {
        unpacking.entry(&entry, &mut entries)?;
    }
    Ok(unpacking.done)
}

struct Unpacking<'r> {
    root: BorrowedFd<'r>,
    rename: Rename,
    /// The first component of the first name.
    first: Option<Vec<u8>>,
    links: Links,
    limits: Limits,
    hasher: RandomState,
    /// The hashes of the names so far, except directories.
    seen: HashSet<u64>,
    done: Unpacked,
}

impl Unpacking<'_> {
    fn entry(&mut self, entry: &ArchiveEntry, content: &mut impl Read) -> Result<(), ArchiveError> {
        let ArchiveEntry { name, kind, .. } = entry;
        if self.done.entries + self.done.left_out == self.limits.entries {
            return Err(refused(name, Refusal::TooLarge));
        }
        let path = self.renamed(name).map_err(|why| refused(name, why))?;
        let path: Vec<&[u8]> = path.iter().map(Vec::as_slice).collect();
        if let Some(why) = self.leaves_out(kind, path.len()) {
            return self.leave_out(name, why);
        }
        let failed = |source| match source {
            // A component is a link or a file: the archive would lead elsewhere.
            Errno::LOOP | Errno::NOTDIR => refused(name, Refusal::Name),
            source => ArchiveError::File { name: name.clone(), source },
        };
        let Some((last, above)) = path.split_last() else {
            // The directory itself.
            return match kind {
                EntryKind::Directory => Ok(()),
                _ => Err(refused(name, Refusal::Name)),
            };
        };
        let is_new = *kind == EntryKind::Directory || self.seen.insert(self.hasher.hash_one(&path));
        if !is_new {
            return Err(refused(name, Refusal::Duplicate));
        }
        self.done.entries += 1;
        if *kind == EntryKind::Directory {
            return directory(self.root, &path).map(|_| ()).map_err(failed);
        }
        let parent = directory(self.root, above).map_err(failed)?;
        remove(parent.as_fd(), last).map_err(failed)?;
        match kind {
            EntryKind::File { bytes, executable } => {
                self.count(name, *bytes)?;
                let file = create(parent.as_fd(), last, *executable).map_err(failed)?;
                fill(&file, *bytes, content, name)
            }
            EntryKind::Link { target } => {
                symlinkat(target.as_slice(), &parent, *last).map_err(failed)
            }
            EntryKind::HardLink { target } => self.hard_link(name, target, parent.as_fd(), last),
            EntryKind::Directory | EntryKind::Special => Ok(()),
        }
    }

    /// The components below the directory.
    fn renamed(&mut self, name: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut path: Vec<Vec<u8>> = components(name)?.into_iter().map(<[u8]>::to_vec).collect();
        if self.rename == Rename::Keep {
            return Ok(path);
        }
        let Some(first) = path.first_mut() else { return Err(Refusal::Roots) };
        if *self.first.get_or_insert_with(|| first.clone()) != *first {
            return Err(Refusal::Roots);
        }
        match &self.rename {
            Rename::To(other) => first.clone_from(other),
            _ => drop(path.remove(0)),
        }
        Ok(path)
    }

    /// Why an entry is left out although the rest is unpacked.
    fn leaves_out(&self, kind: &EntryKind, components: usize) -> Option<Refusal> {
        match kind {
            EntryKind::Special => Some(Refusal::Special),
            EntryKind::Link { target } if self.links == Links::Below => {
                // A renamed tree is the target, not the directory that it is in.
                let above = if matches!(self.rename, Rename::To(_)) { 2 } else { 1 };
                (!stays(target, components.saturating_sub(above))).then_some(Refusal::Link)
            }
            _ => None,
        }
    }

    fn leave_out(&mut self, name: &[u8], why: Refusal) -> Result<(), ArchiveError> {
        const EXAMPLES: usize = 8;
        self.done.left_out += 1;
        if self.done.examples.len() < EXAMPLES {
            self.done.examples.push((name.to_vec(), why));
        }
        Ok(())
    }

    fn count(&mut self, name: &[u8], bytes: u64) -> Result<(), ArchiveError> {
        let sum = self.done.bytes.checked_add(bytes).filter(|sum| *sum <= self.limits.bytes);
        self.done.bytes = sum.ok_or_else(|| refused(name, Refusal::TooLarge))?;
        Ok(())
    }

    /// Links to a file that this archive has created.
    fn hard_link(
        &mut self,
        name: &[u8],
        target: &[u8],
        parent: BorrowedFd<'_>,
        last: &[u8],
    ) -> Result<(), ArchiveError> {
        let path = self.renamed(target).map_err(|why| refused(name, why))?;
        let path: Vec<&[u8]> = path.iter().map(Vec::as_slice).collect();
        let is_ours = self.seen.contains(&self.hasher.hash_one(&path));
        let Some((old, above)) = path.split_last().filter(|_| is_ours) else {
            return Err(refused(name, Refusal::HardLink));
        };
        let failed = |source| ArchiveError::File { name: name.to_vec(), source };
        let from = directory(self.root, above).map_err(failed)?;
        linkat(&from, *old, parent, last, AtFlags::empty()).map_err(failed)
    }
}

/// Removes a file or a link, so that nothing is written through it.
fn remove(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn create(parent: BorrowedFd<'_>, name: &[u8], executable: bool) -> rustix::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
    Ok(openat(parent, name, flags, mode)?.into())
}

/// Writes the content of an entry to a new file; long zeros become holes.
pub fn fill(
    mut file: &File,
    bytes: u64,
    content: &mut impl Read,
    name: &[u8],
) -> Result<(), ArchiveError> {
    const PIECE: usize = 64 << 10;
    let failed = |error: std::io::Error| match Errno::from_io_error(&error) {
        Some(source) => ArchiveError::File { name: name.to_vec(), source },
        None => ArchiveError::Stream { source: error },
    };
    let mut buffer = vec![0; PIECE];
    let mut left = bytes;
    let mut ends_in_hole = false;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        let piece = &mut buffer[..wanted];
        content.read_exact(piece).map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => refused(name, Refusal::Truncated),
            _ => ArchiveError::Stream { source },
        })?;
        left -= wanted as u64;
        ends_in_hole = wanted == PIECE && piece.iter().all(|byte| *byte == 0);
        match ends_in_hole {
            true => _ = file.seek(SeekFrom::Current(PIECE as i64)).map_err(failed)?,
            false => file.write_all(piece).map_err(failed)?,
        }
    }
    if ends_in_hole {
        file.set_len(bytes).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
