//! Brings the changes of copied directories back to the host.
//!
//! ```text
//! record ── as at the last delivery ──▶ skipped
//!        ── new or changed ── a temporary name ── one rename ──▶ delivered
//!        ── a FIFO, a link that leads out, a link of the host on its path ──▶ refused, by name
//! what was delivered before and has no record any more ──▶ removed
//! ```
//! The records come from a sandbox and are hostile. Every name is a single component in a directory
//! that was opened below the target without following a link, no file of the host is ever opened for
//! writing, and a file appears complete or not at all.

mod host;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, fchmod, ftruncate, futimens, linkat, mkdirat,
    openat2, symlinkat, unlinkat,
};
use rustix::io::{Errno, pwrite};

use super::content::read_extent;
use super::fill::times;
use super::open;
use super::order::Order;
use super::record::{FileHead, MAX_DEPTH, Metadata, Record, Time, refused};
use crate::beneath::{self, stays};
use crate::{ArchiveError, Limits, Refusal};
use host::{New, kind, permissions, put, remove};

/// The permission bits that reach the host: none that runs a program as another user.
const MODE: u32 = 0o777;
/// The maximum length of a path.
const MAX_PATH_BYTES: usize = 4096;
/// The maximum length of all paths and targets that are kept for one directory.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// How many refused entries are named.
const EXAMPLES: usize = 8;

/// A directory of the host, and what a sandbox got of it and changed in it so far.
#[derive(Debug)]
pub struct Target {
    directory: OwnedFd,
    /// The directories of the copy, by their paths. Only those are removed with everything in them,
    /// and only once: what the host has in others is not known inside.
    copied: HashSet<Vec<u8>>,
    /// What was delivered, by path. The host may have changed it since. A path is taken out before
    /// it changes, so that this is true after every error.
    delivered: HashMap<Vec<u8>, Known>,
    /// The number of this delivery.
    turn: u64,
}

/// What is known of a path.
#[derive(Debug)]
struct Known {
    what: Delivered,
    /// The last delivery that had the path.
    turn: u64,
}

/// What was delivered for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Delivered {
    Nothing,
    Directory,
    Link(Vec<u8>),
    /// The path of the first name of the file.
    HardLink(Vec<u8>),
    File {
        size: u64,
        mode: u32,
        modified: Time,
    },
}

/// What a delivery left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// How many entries.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<LeftOut>,
}

/// An entry that stays inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of its place.
    pub place: u32,
    /// Its path there.
    pub path: Vec<u8>,
    /// Why.
    pub why: String,
}

impl Target {
    /// A directory whose copy has these directories.
    pub fn new(directory: OwnedFd, copied: HashSet<Vec<u8>>) -> Target {
        Target { directory, copied, delivered: HashMap::new(), turn: 0 }
    }

    fn known(&self, path: &[u8]) -> Option<&Delivered> {
        self.delivered.get(path).map(|known| &known.what)
    }

    /// Opens the directory above a path without following a link, and returns the name there.
    fn above<'p>(&self, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8]), Errno> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (b".".as_slice(), path),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok((openat2(&self.directory, above, flags, Mode::empty(), resolve)?, name))
    }

    /// Begins a delivery. Deliveries that failed can leave more than one may keep; that is forgotten.
    fn begin(&mut self) {
        self.turn += 1;
        let kept = self.delivered.iter().map(|(path, known)| path.len() + known.what.length());
        if kept.sum::<usize>() > MAX_KEPT_BYTES {
            self.delivered.clear();
        }
    }
}

impl Delivered {
    /// The length of what it keeps.
    fn length(&self) -> usize {
        match self {
            Delivered::Link(path) | Delivered::HardLink(path) => path.len(),
            Delivered::Nothing | Delivered::Directory | Delivered::File { .. } => 0,
        }
    }
}

/// Applies the changes in a stream of records to the targets of its places. An entry that is refused
/// does not end it.
pub fn deliver(
    targets: &mut [Target],
    source: &mut impl Read,
    limits: Limits,
) -> Result<Undelivered, ArchiveError> {
    let mut order = Order::default();
    let mut undelivered = Undelivered::default();
    let mut bytes = 0_u64;
    let mut place: Option<(u32, Place<'_>)> = None;
    let mut rest = targets.iter_mut().zip(0_u32..);
    loop {
        let record = Record::decode(source)?;
        order.check(&record, limits.entries)?;
        match record {
            Record::Place { number, .. } => {
                let target = rest.find(|(_, place)| *place == number);
                let (target, _) = target.ok_or_else(|| refused(b"", Refusal::Damaged))?;
                if let Some((_, place)) = place.replace((number, Place::new(target)?)) {
                    place.finish();
                }
            }
            Record::End => {
                if let Some((_, place)) = place {
                    place.finish();
                }
                return Ok(undelivered);
            }
            record => {
                if let Record::File(FileHead { name, size, .. }) = &record {
                    let sum = bytes.checked_add(*size).filter(|sum| *sum <= limits.bytes);
                    bytes = sum.ok_or_else(|| refused(name, Refusal::TooLarge))?;
                }
                let damaged = || refused(b"", Refusal::Damaged);
                let (number, place) = place.as_mut().ok_or_else(damaged)?;
                if let Some((path, why)) = place.entry(record, source)? {
                    undelivered.count += 1;
                    if undelivered.examples.len() < EXAMPLES {
                        undelivered.examples.push(LeftOut { place: *number, path, why });
                    }
                }
            }
        }
    }
}

/// Why an entry is left out.
#[derive(Debug)]
enum Failed {
    Refused(String),
    /// The stream is of no use any more.
    Stream(ArchiveError),
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Failed {
        Failed::Refused(match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::EXIST => {
                "the host has a link or another kind of file there".to_owned()
            }
            errno => std::io::Error::from(errno).to_string(),
        })
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::Refused(refusal.to_string())
    }
}

/// A file that hard links may name. Its directory is opened again for each: a sandbox could send more
/// of them than a process may have descriptors.
struct First {
    path: Vec<u8>,
    is_known: bool,
}

/// A place whose records are being read.
struct Place<'t> {
    target: &'t mut Target,
    /// The open directories; `None` below one that was refused.
    levels: Vec<Option<Rc<OwnedFd>>>,
    path: Vec<u8>,
    files: HashMap<u64, First>,
    /// Directories that were delivered and then removed inside.
    leaving: Vec<Vec<u8>>,
    /// How many more bytes may be kept.
    room: usize,
}

impl<'t> Place<'t> {
    fn new(target: &'t mut Target) -> Result<Place<'t>, ArchiveError> {
        let failed = |source| ArchiveError::File { name: b".".to_vec(), source };
        let directory = Rc::new(open::copy(&target.directory).map_err(failed)?);
        let levels = vec![Some(directory)];
        target.begin();
        let (path, files, leaving) = (Vec::new(), HashMap::new(), Vec::new());
        Ok(Place { target, levels, path, files, leaving, room: MAX_KEPT_BYTES })
    }

    /// Counts bytes that are kept.
    fn keep(&mut self, bytes: usize) -> Result<(), ArchiveError> {
        let room = self.room.checked_sub(bytes);
        self.room = room.ok_or_else(|| refused(b"", Refusal::TooLarge))?;
        Ok(())
    }

    /// Remembers what was delivered for the path.
    fn remember(&mut self, what: Delivered) -> Result<(), Failed> {
        self.keep(what.length()).map_err(Failed::Stream)?;
        let known = Known { what, turn: self.target.turn };
        self.target.delivered.insert(self.path.clone(), known);
        Ok(())
    }

    /// Forgets the path, which is about to change.
    fn forget(&mut self) {
        self.target.delivered.remove(&self.path);
    }

    /// Applies one record. Returns the path of an entry that is refused, and why.
    fn entry(
        &mut self,
        record: Record,
        source: &mut impl Read,
    ) -> Result<Option<(Vec<u8>, String)>, ArchiveError> {
        let Some(name) = record.name().map(<[u8]>::to_vec) else {
            // The end of a directory.
            self.levels.pop();
            let above = self.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            self.path.truncate(above);
            return Ok(None);
        };
        let length = self.path.len();
        if length > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&name);
        let depth = self.levels.len();
        let mut here = self.levels.last().cloned().flatten();
        let is_long = self.path.len() > MAX_PATH_BYTES;
        if !is_long {
            self.keep(self.path.len())?;
        }
        let too_long = here.take_if(|_| is_long).is_some();
        let done = match (here, record) {
            (here, Record::Enter { metadata, replaces, .. }) => {
                let entered = here.map(|here| self.enter(here.as_fd(), &name, &metadata, replaces));
                let (level, done) = match entered.transpose() {
                    Ok(level) => (level, Ok(())),
                    Err(failed) => (None, Err(failed)),
                };
                self.levels.push(level.map(Rc::new));
                done
            }
            (None, Record::File(head)) => skip(&head, source).map_err(Failed::Stream),
            (None, _) => Ok(()),
            (Some(here), record) => self.apply(&here, &name, record, source),
        };
        // What is left out stays on the host as it is.
        if !is_long && let Some(known) = self.target.delivered.get_mut(&self.path) {
            known.turn = self.target.turn;
        }
        let left_out = match done {
            Ok(()) if too_long => Some((self.path.clone(), Refusal::LongName.to_string())),
            Ok(()) => None,
            Err(Failed::Refused(why)) => Some((self.path.clone(), why)),
            Err(Failed::Stream(error)) => return Err(error),
        };
        if self.levels.len() == depth {
            self.path.truncate(length);
        }
        Ok(left_out)
    }

    /// Opens a directory of the host, and makes it if it is missing.
    fn enter(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        metadata: &Metadata,
        replaces: bool,
    ) -> Result<OwnedFd, Failed> {
        let is_known = self.target.known(&self.path) == Some(&Delivered::Directory);
        if !is_known {
            self.forget();
        }
        if replaces && !is_known && self.target.copied.remove(&self.path) {
            remove(here, name, MAX_DEPTH)?;
        }
        let mode = Mode::from_raw_mode(metadata.mode & MODE | 0o700);
        let directory = match mkdirat(here, name, mode) {
            Ok(()) => {
                let made = beneath::open(here, name)?;
                fchmod(&made, mode)?;
                made
            }
            Err(Errno::EXIST) if kind(here, name)? == Some(FileType::Directory) => {
                beneath::open(here, name)?
            }
            // The program replaced a file or a link.
            Err(Errno::EXIST) if replaces => {
                unlinkat(here, name, AtFlags::empty())?;
                mkdirat(here, name, mode)?;
                beneath::open(here, name)?
            }
            Err(errno) => return Err(errno.into()),
        };
        self.remember(Delivered::Directory)?;
        Ok(directory)
    }

    /// Applies a record of something other than a directory.
    fn apply(
        &mut self,
        here: &Rc<OwnedFd>,
        name: &[u8],
        record: Record,
        source: &mut impl Read,
    ) -> Result<(), Failed> {
        let known = self.target.known(&self.path).cloned();
        let new = match record {
            Record::File(head) => {
                let (mode, modified) = (head.metadata.mode & MODE, head.metadata.modified);
                let new = Delivered::File { size: head.size, mode, modified };
                let is_known = known.as_ref() == Some(&new);
                match is_known {
                    true => skip(&head, source).map_err(Failed::Stream)?,
                    false => self.file(here.as_fd(), &head, source)?,
                }
                if let Some(link) = head.link {
                    self.keep(self.path.len()).map_err(Failed::Stream)?;
                    self.files.insert(link, First { path: self.path.clone(), is_known });
                }
                new
            }
            Record::HardLink { link, .. } => {
                let first = self.files.get(&link).ok_or(Refusal::HardLink)?;
                let (is_known, new) = (first.is_known, Delivered::HardLink(first.path.clone()));
                if !is_known || known.as_ref() != Some(&new) {
                    self.hard_link(here.as_fd(), name, link)?;
                }
                new
            }
            Record::Link { target, .. } => {
                let new = Delivered::Link(target.clone());
                if known.as_ref() != Some(&new) {
                    if !stays(&target, self.levels.len() - 1) {
                        return Err(Refusal::Link.into());
                    }
                    self.make_room(here.as_fd(), name)?;
                    self.forget();
                    put(here.as_fd(), name, |to| symlinkat(target.as_slice(), here, to))?;
                }
                new
            }
            Record::Deleted { .. } => {
                let is_delivered = known == Some(Delivered::Directory);
                if is_delivered && !self.target.copied.contains(&self.path) {
                    // The host may have something in it, which is not known inside.
                    self.leaving.push(self.path.clone());
                    return Ok(());
                }
                if known != Some(Delivered::Nothing) {
                    self.delete(here.as_fd(), name)?;
                }
                Delivered::Nothing
            }
            _ => return Err(Refusal::Special.into()),
        };
        self.remember(new)
    }

    /// Gives a file of this delivery another name.
    fn hard_link(&mut self, here: BorrowedFd<'_>, name: &[u8], link: u64) -> Result<(), Failed> {
        let first = self.files.get(&link).ok_or(Refusal::HardLink)?;
        let (parent, old) = self.target.above(&first.path)?;
        let old = old.to_vec();
        self.make_room(here, name)?;
        self.forget();
        Ok(put(here, name, |temporary| {
            linkat(&parent, old.as_slice(), here, temporary, AtFlags::empty())?;
            // The host may have something else there by now. Another name of a link could lead out.
            match kind(here, temporary)? {
                Some(FileType::RegularFile) => Ok(()),
                _ => Err(Errno::LOOP),
            }
        })?)
    }

    /// Removes what the program removed.
    fn delete(&mut self, here: BorrowedFd<'_>, name: &[u8]) -> Result<(), Failed> {
        self.make_room(here, name)?;
        self.forget();
        match unlinkat(here, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes a file; reads its content in any case.
    fn file(
        &mut self,
        here: BorrowedFd<'_>,
        head: &FileHead,
        source: &mut impl Read,
    ) -> Result<(), Failed> {
        let prepared = self.make_room(here, &head.name).and_then(|()| Ok(New::create(here)?));
        let new = match prepared {
            Ok(new) => new,
            Err(failed) => {
                skip(head, source).map_err(Failed::Stream)?;
                return Err(failed);
            }
        };
        fill(&new.file, head, source)?;
        let mode = permissions(here, &head.name, head.metadata.mode)?;
        fchmod(&new.file, Mode::from_raw_mode(mode))?;
        futimens(&new.file, &times(head.metadata.modified))?;
        self.forget();
        Ok(new.put(&head.name)?)
    }

    /// Removes a directory of the copy that the program replaced.
    fn make_room(&mut self, here: BorrowedFd<'_>, name: &[u8]) -> Result<(), Failed> {
        if kind(here, name)? != Some(FileType::Directory) {
            return Ok(());
        }
        match self.target.copied.remove(&self.path) {
            true => {
                self.forget();
                Ok(remove(here, name, MAX_DEPTH)?)
            }
            false => Err(Failed::Refused("the host has a directory there".to_owned())),
        }
    }

    /// Removes what was delivered before and is gone now. A directory in which the host has anything
    /// stays.
    fn finish(self) {
        let Place { target, leaving, .. } = self;
        for path in &leaving {
            if let Some(known) = target.delivered.get_mut(path) {
                known.turn = 0;
            }
        }
        let turn = target.turn;
        let mut gone: Vec<_> = target.delivered.iter().collect();
        gone.retain(|(_, known)| known.what != Delivered::Nothing && known.turn != turn);
        // Deepest first.
        gone.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (path, known) in gone {
            let Ok((parent, name)) = target.above(path) else {
                continue;
            };
            let how = match known.what {
                Delivered::Directory => AtFlags::REMOVEDIR,
                _ => AtFlags::empty(),
            };
            // Fails if the host removed or replaced it, which is its right.
            let _ = unlinkat(&parent, name, how);
        }
        target.delivered.retain(|_, known| known.turn == turn);
        let nothing = || Known { what: Delivered::Nothing, turn };
        target.delivered.extend(leaving.into_iter().map(|path| (path, nothing())));
    }
}

/// Writes the content of a file. After an error of the file system it reads the rest.
fn fill(file: &File, head: &FileHead, source: &mut impl Read) -> Result<(), Failed> {
    let (mut buffer, mut end, mut failed) = (Vec::new(), 0, None);
    while let Some(extent) =
        read_extent(source, head.size, end, &mut buffer).map_err(Failed::Stream)?
    {
        let mut written = 0;
        while written < extent.bytes && failed.is_none() {
            match pwrite(file, &buffer[written..], extent.offset + written as u64) {
                Ok(more) => written += more,
                Err(errno) => failed = Some(errno),
            }
        }
        end = extent.offset + extent.bytes as u64;
    }
    match failed {
        Some(errno) => Err(errno.into()),
        None => Ok(ftruncate(file, head.size)?),
    }
}

/// Reads the content of a file.
fn skip(head: &FileHead, source: &mut impl Read) -> Result<(), ArchiveError> {
    let (mut buffer, mut end) = (Vec::new(), 0);
    while let Some(extent) = read_extent(source, head.size, end, &mut buffer)? {
        end = extent.offset + extent.bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
#[path = "deliver_tests.rs"]
mod tests;
