//! One layer: checked whole, then its whiteouts applied, then its entries unpacked.
//!
//! Whiteouts come first because they concern only lower layers, wherever they are in the archive.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chownat, fchmod, fchown,
    futimens, linkat, mkdirat, openat, statat, symlinkat,
};
use rustix::io::Errno;
use stockade_archive::{
    ArchiveEntry, ArchiveError, Attributes, Entries, EntryKind, components, fill,
};

use crate::digest::Hashed;
use crate::parcel::Parcel;
use crate::select::{Layer, refused};
use crate::stream::{Limited, decompressed};
use crate::tree::{self, MOST_DEPTH};
use crate::{ImageError, Limits, Refusal};

/// The user and group of files whose owner is outside of the range of a sandbox.
const NOBODY: u32 = 65_534;
/// The ids that a sandbox has.
const IDS: u64 = 1 << 16;
/// The maximum memory of the whiteouts of a layer, in bytes.
const MOST_WHITEOUTS: usize = 32 << 20;
/// How many entries are named in a report.
const MOST_EXAMPLES: usize = 8;

const PREFIX: &[u8] = b".wh.";
/// Hides everything in the directory below.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Files of the union file system for which this format was invented.
const OTHER: &[u8] = b".wh..wh.";

/// What happened to the entries of all layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Devices, FIFOs and files of union file systems.
    pub(crate) left_out: u64,
    pub(crate) set_ids: u64,
    pub(crate) owners: u64,
    pub(crate) examples: Vec<String>,
}

/// What a layer removes: a name or, if `is_all`, everything in a directory.
pub(crate) struct Whiteout {
    /// Joined by slashes: a layer can have very many, and each part of its own would cost more
    /// memory than it has letters.
    path: Vec<u8>,
    is_all: bool,
}

impl Whiteout {
    /// The parts of its path; no parts mean the root.
    pub(crate) fn parts(&self) -> Vec<&[u8]> {
        self.path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect()
    }
}

/// A layer whose digest and entries were checked.
pub(crate) struct Checked {
    pub(crate) whiteouts: Vec<Whiteout>,
    /// What it used of the limits.
    used: Limits,
}

/// Reads a layer to its end, checks its digest and every entry, and counts it against the limits.
pub(crate) fn check(
    parcel: &Parcel,
    layer: &Layer,
    limits: &mut Limits,
) -> Result<Checked, ImageError> {
    let before = *limits;
    let mut checking = Checking::new(&layer.file, limits.entries);
    limits.bytes = read(parcel, layer, limits.bytes, |entry, _| checking.entry(entry))?;
    limits.entries = checking.entries;
    let (bytes, entries) = (before.bytes - limits.bytes, before.entries - limits.entries);
    Ok(Checked { whiteouts: checking.whiteouts, used: Limits { bytes, entries } })
}

/// Checks the entries of a layer one by one.
pub(crate) struct Checking<'c> {
    part: &'c str,
    /// How many entries and directories above them may follow.
    entries: u64,
    hasher: RandomState,
    /// The hashes of the paths so far, and of the directories above them.
    seen: HashSet<u64>,
    pub(crate) whiteouts: Vec<Whiteout>,
    /// How many bytes more whiteouts may have.
    whiteout_bytes: usize,
}

impl Checking<'_> {
    pub(crate) fn new(part: &str, entries: u64) -> Checking<'_> {
        let (hasher, seen, whiteouts) = (RandomState::new(), HashSet::new(), Vec::new());
        Checking { part, entries, hasher, seen, whiteouts, whiteout_bytes: MOST_WHITEOUTS }
    }

    pub(crate) fn entry(&mut self, entry: &ArchiveEntry) -> Result<(), ImageError> {
        let name = entry.name.escape_ascii().to_string();
        let wrong = |refusal| Err(refused(&name, refusal));
        let path = path_of(self.part, entry)?;
        let Some(left) = self.entries.checked_sub(1) else { return wrong(Refusal::TooLarge) };
        self.entries = left;
        let Attributes { mode, user, group, .. } = entry.attributes;
        if mode.is_none() || user.is_none() || group.is_none() {
            return wrong(Refusal::Attributes);
        }
        let Some((last, above)) = path.split_last() else { return Ok(()) };
        if above.iter().any(|part| part.starts_with(PREFIX)) {
            return wrong(Refusal::Whiteout);
        }
        if !last.starts_with(PREFIX) {
            return match self.see(&path) {
                true => Ok(()),
                false => wrong(Refusal::TooLarge),
            };
        }
        let is_all = *last == OPAQUE;
        if last.starts_with(OTHER) && !is_all {
            return Ok(());
        }
        if !matches!(entry.kind, EntryKind::File { bytes: 0, .. }) {
            return wrong(Refusal::Whiteout);
        }
        let mut removed = above.to_vec();
        if !is_all {
            let target = &last[PREFIX.len()..];
            removed.push(target);
            // What an engine does with an entry before its own whiteout depends on the engine.
            let hash = hashes(&self.hasher, &removed).last();
            let is_later = hash.is_some_and(|hash| self.seen.contains(&hash));
            if target.is_empty() || target == b"." || target == b".." || is_later {
                return wrong(Refusal::Whiteout);
            }
        }
        let path = removed.join(&b'/');
        let bytes = path.len() + size_of::<Whiteout>();
        let Some(left) = self.whiteout_bytes.checked_sub(bytes) else {
            return wrong(Refusal::TooLarge);
        };
        self.whiteout_bytes = left;
        self.whiteouts.push(Whiteout { path, is_all });
        Ok(())
    }

    /// Remembers an entry and the directories above it. Each directory that is new counts as an
    /// entry, because unpacking makes it. Returns whether that is within the limit.
    fn see(&mut self, path: &[&[u8]]) -> bool {
        for (number, hash) in (1..).zip(hashes(&self.hasher, path)) {
            let is_new = self.seen.insert(hash);
            if is_new && number < path.len() {
                let Some(left) = self.entries.checked_sub(1) else { return false };
                self.entries = left;
            }
        }
        true
    }
}

/// The hashes of the first part of a path, of the first two, and so on.
fn hashes(state: &RandomState, path: &[&[u8]]) -> impl Iterator<Item = u64> {
    let mut hasher = state.build_hasher();
    path.iter().map(move |part| {
        hasher.write(part);
        // No part has a slash, so different paths are different bytes.
        hasher.write(b"/");
        hasher.finish()
    })
}

/// Removes what a layer hides of the lower ones.
pub(crate) fn hide(whiteouts: &[Whiteout], root: BorrowedFd<'_>) -> Result<(), ImageError> {
    for whiteout in whiteouts {
        let path = whiteout.parts();
        let removed = match (whiteout.is_all, path.split_last()) {
            (true, _) => tree::directory(root, &path).and_then(|it| tree::empty(it.as_fd())),
            (false, Some((last, above))) => tree::directory(root, above)
                .and_then(|it| tree::remove(it.as_fd(), OsStr::from_bytes(last)).map(drop)),
            (false, None) => Ok(()),
        };
        match removed {
            // The lower layers have nothing there.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => {
                return Err(failed(&whiteout.path.escape_ascii().to_string(), errno));
            }
        }
    }
    Ok(())
}

/// Unpacks the entries of a layer over the lower ones. It may use no more than the check counted:
/// the archive can change between the two, and its digest is known only at the end.
pub(crate) fn unpack(
    parcel: &Parcel,
    layer: &Layer,
    checked: &Checked,
    root: BorrowedFd<'_>,
    done: &mut Unpacked,
) -> Result<(), ImageError> {
    let is_root = rustix::process::geteuid().is_root();
    let Limits { bytes, entries } = checked.used;
    let mut unpacking = Unpacking { layer, root, is_root, entries, parent: None, done };
    read(parcel, layer, bytes, |entry, content| unpacking.entry(entry, content)).map(drop)
}

/// Reads the entries of a layer and checks its digest. Returns how many bytes are left.
fn read(
    parcel: &Parcel,
    layer: &Layer,
    most: u64,
    mut each: impl FnMut(&ArchiveEntry, &mut dyn Read) -> Result<(), ImageError>,
) -> Result<u64, ImageError> {
    let part = layer.file.as_str();
    let unreadable =
        |source: io::Error| ImageError::File { doing: "read", path: part.into(), source };
    let (source, _) = parcel.open_file(part)?;
    let content = decompressed(source).map_err(unreadable)?;
    let content = content.map_err(|refusal| refused(part, refusal))?;
    let mut content = Hashed::new(Limited::new(content, most));
    let mut entries = Entries::new(&mut content);
    while let Some(entry) = entries.next_entry().map_err(in_layer(part))? {
        each(&entry, &mut entries)?;
    }
    let left = content.source().left();
    let (digest, _) = content.finish().map_err(unreadable)?;
    match digest == layer.content {
        true => Ok(left),
        false => Err(refused(part, Refusal::Digest)),
    }
}

/// An error of the archive of a layer, where the end of the limit is a refusal.
fn in_layer(part: &str) -> impl Fn(ArchiveError) -> ImageError {
    move |error| match error {
        ArchiveError::Stream { source } if source.kind() == io::ErrorKind::QuotaExceeded => {
            refused(part, Refusal::TooLarge)
        }
        source => ImageError::Archive { part: part.to_owned(), source },
    }
}

/// The longest name that file systems of Linux accept, in bytes.
const MOST_NAME: usize = 255;

/// The error for a tree that links make too deep; no call made here returns it.
const TOO_DEEP: Errno = Errno::OVERFLOW;

/// The parts of the name of an entry.
fn path_of<'e>(part: &str, entry: &'e ArchiveEntry) -> Result<Vec<&'e [u8]>, ImageError> {
    let path = components(&entry.name).map_err(|refusal| ImageError::Archive {
        part: part.to_owned(),
        source: ArchiveError::Refused { name: entry.name.clone(), refusal },
    })?;
    let wrong = |refusal| Err(refused(&entry.name.escape_ascii().to_string(), refusal));
    if path.len() > MOST_DEPTH {
        return wrong(Refusal::TooDeep);
    }
    if path.iter().any(|name| name.len() > MOST_NAME) {
        return wrong(Refusal::LongName);
    }
    Ok(path)
}

struct Unpacking<'u> {
    layer: &'u Layer,
    root: BorrowedFd<'u>,
    /// Only root can give files to other users.
    is_root: bool,
    /// How many entries and directories above them may follow.
    entries: u64,
    /// The directory of the last entry.
    parent: Option<(Vec<Vec<u8>>, OwnedFd)>,
    done: &'u mut Unpacked,
}

impl Unpacking<'_> {
    fn entry(&mut self, entry: &ArchiveEntry, content: &mut dyn Read) -> Result<(), ImageError> {
        let name = entry.name.escape_ascii().to_string();
        let path = path_of(&self.layer.file, entry)?;
        self.count(1).map_err(|errno| failed(&name, errno))?;
        let Some((last, above)) = path.split_last() else {
            return match entry.kind {
                EntryKind::Directory => Ok(()),
                _ => Err(refused(&name, Refusal::Path)),
            };
        };
        if entry.kind == EntryKind::Special || last.starts_with(OTHER) && *last != OPAQUE {
            self.done.left_out += 1;
            self.example(&name, "left out: a device, FIFO or file of a union file system");
            return Ok(());
        }
        if last.starts_with(PREFIX) {
            return Ok(());
        }
        let last = OsStr::from_bytes(last);
        let parent = self.parent(above).map_err(|errno| failed(&name, errno))?;
        let done = self.place(entry, &parent, last, content);
        let is_replaced = done?;
        self.parent =
            (!is_replaced).then(|| (above.iter().map(|part| part.to_vec()).collect(), parent));
        Ok(())
    }

    /// Puts an entry into its directory. Returns whether it replaced another one, which may have
    /// been part of a known path.
    fn place(
        &mut self,
        entry: &ArchiveEntry,
        parent: &OwnedFd,
        last: &OsStr,
        content: &mut dyn Read,
    ) -> Result<bool, ImageError> {
        let name = entry.name.escape_ascii().to_string();
        let failed = |errno| failed(&name, errno);
        let found = statat(parent, last, AtFlags::SYMLINK_NOFOLLOW).map(|it| it.st_mode);
        let is_there = found.is_ok();
        let is_directory =
            found.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::Directory);
        let stays = is_directory && entry.kind == EntryKind::Directory;
        if is_there && !stays {
            tree::remove(parent.as_fd(), last).map_err(failed)?;
        }
        let (user, group) = self.owner(&name, entry.attributes);
        let mode = self.mode(&name, entry)?;
        match &entry.kind {
            EntryKind::Directory => {
                if !stays {
                    mkdirat(parent, last, Mode::RWXU).map_err(failed)?;
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = openat(parent, last, flags, Mode::empty()).map_err(failed)?;
                self.own(made.as_fd(), user, group).map_err(failed)?;
                // The store can always be read and removed by its owner.
                fchmod(&made, mode | Mode::RWXU).map_err(failed)?;
            }
            EntryKind::File { bytes, .. } => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let made = openat(parent, last, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
                let file = File::from(made.map_err(failed)?);
                fill(&file, *bytes, &mut { content }, &entry.name)
                    .map_err(in_layer(&self.layer.file))?;
                self.own(file.as_fd(), user, group).map_err(failed)?;
                fchmod(&file, mode).map_err(failed)?;
                futimens(&file, &times(entry.attributes.modified)).map_err(failed)?;
            }
            EntryKind::Link { target } => {
                symlinkat(OsStr::from_bytes(target), parent, last).map_err(failed)?;
                if self.is_root {
                    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
                    chownat(parent, last, user, group, nofollow).map_err(failed)?;
                }
            }
            EntryKind::HardLink { target } => self.hard_link(&name, target, parent, last)?,
            EntryKind::Special => {}
        }
        Ok(is_there && !stays)
    }

    /// The directory of an entry. Missing ones are made, as engines do.
    fn parent(&mut self, above: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
        match self.parent.take() {
            Some((path, open)) if path.iter().map(Vec::as_slice).eq(above.iter().copied()) => {
                Ok(open)
            }
            _ => {
                let (open, made) = tree::made_directory(self.root, above)?;
                self.count(made)?;
                match tree::depth(self.root, open.as_fd())? < MOST_DEPTH {
                    true => Ok(open),
                    false => Err(TOO_DEEP),
                }
            }
        }
    }

    /// Counts entries and directories against the limit.
    fn count(&mut self, made: u64) -> rustix::io::Result<()> {
        self.entries = self.entries.checked_sub(made).ok_or(Errno::NAMETOOLONG)?;
        Ok(())
    }

    fn hard_link(
        &self,
        name: &str,
        target: &[u8],
        parent: &OwnedFd,
        last: &OsStr,
    ) -> Result<(), ImageError> {
        let wrong = || refused(name, Refusal::HardLink);
        let path = components(target).map_err(|_| wrong())?;
        let Some((old, above)) = path.split_last() else { return Err(wrong()) };
        let old = OsStr::from_bytes(old);
        let from = tree::directory(self.root, above).map_err(|_| wrong())?;
        let found = statat(&from, old, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| wrong())?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile | FileType::Symlink => {}
            _ => return Err(wrong()),
        }
        linkat(&from, old, parent, last, AtFlags::empty()).map_err(|errno| failed(name, errno))
    }

    fn own(
        &self,
        file: BorrowedFd<'_>,
        user: Option<Uid>,
        group: Option<Gid>,
    ) -> rustix::io::Result<()> {
        match self.is_root {
            true => fchown(file, user, group),
            false => Ok(()),
        }
    }

    /// The owner in the store, one of those that a sandbox can show.
    fn owner(&mut self, name: &str, attributes: Attributes) -> (Option<Uid>, Option<Gid>) {
        let known = |id: Option<u64>| {
            let id = id.filter(|id| *id < IDS);
            id.and_then(|id| u32::try_from(id).ok())
        };
        let (user, group) = (known(attributes.user), known(attributes.group));
        if user.is_none() || group.is_none() {
            self.done.owners += 1;
            self.example(name, "its owner became 65534");
        }
        let (user, group) = (user.unwrap_or(NOBODY), group.unwrap_or(NOBODY));
        (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
    }

    /// The permissions without set-id bits.
    fn mode(&mut self, name: &str, entry: &ArchiveEntry) -> Result<Mode, ImageError> {
        let mode = entry.attributes.mode.ok_or_else(|| refused(name, Refusal::Attributes))?;
        let has_mode = matches!(entry.kind, EntryKind::File { .. } | EntryKind::Directory);
        if mode & 0o6000 != 0 && has_mode {
            self.done.set_ids += 1;
            self.example(name, "its set-id bits were dropped");
        }
        let kept = if entry.kind == EntryKind::Directory { 0o1777 } else { 0o777 };
        Ok(Mode::from_raw_mode(mode & kept))
    }

    fn example(&mut self, name: &str, what: &str) {
        if self.done.examples.len() < MOST_EXAMPLES {
            self.done.examples.push(format!("{name}: {what}"));
        }
    }
}

/// The time of a file. Python compares it with the one in its compiled files.
fn times(modified: Option<u64>) -> Timestamps {
    let seconds = modified.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0);
    // Later times do not fit into the inodes of every file system.
    let time = Timespec { tv_sec: seconds.min(i64::from(u32::MAX)), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

fn failed(name: &str, errno: Errno) -> ImageError {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::EXIST | Errno::XDEV => refused(name, Refusal::Path),
        TOO_DEEP => refused(name, Refusal::TooDeep),
        Errno::NAMETOOLONG => refused(name, Refusal::TooLarge),
        errno => ImageError::File { doing: "unpack", path: name.into(), source: errno.into() },
    }
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
