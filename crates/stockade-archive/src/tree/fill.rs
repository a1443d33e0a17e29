//! Writes trees, inside a fresh sandbox.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, chmodat, fchmod,
    fsetxattr, ftruncate, futimens, linkat, mkdirat, mknodat, openat, statat, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::{Errno, pwrite};

use super::content::read_extent;
use super::open;
use super::order::Order;
use super::record::{FILLED_MODE, FileHead, MAX_DEPTH, Metadata, Node, Record, Time, refused};
use crate::{ArchiveError, Refusal};

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// How many bytes of content, without holes.
    pub bytes: u64,
    /// How many FIFOs and sockets the sandbox may not make.
    pub left_out: u64,
}

/// Writes a stream of records into the directories of places, by their numbers. What an entry
/// replaces is removed. Never follows a link.
pub fn fill_tree(places: &[OwnedFd], source: &mut impl Read) -> Result<Filled, ArchiveError> {
    let mut order = Order::default();
    let mut writer = Writer {
        levels: Vec::new(),
        files: HashMap::new(),
        filled: Filled::default(),
        buffer: Vec::new(),
    };
    loop {
        let record = Record::decode(source)?;
        order.check(&record, u64::MAX)?;
        match record {
            Record::Place { number, metadata, .. } => {
                writer.finish_place()?;
                let place = usize::try_from(number).ok().and_then(|number| places.get(number));
                let place = place.ok_or_else(|| refused(b"", Refusal::Damaged))?;
                let directory = open::copy(place).map_err(at(b"."))?;
                let directory = Rc::new(directory);
                writer.levels.push(Level { directory, metadata, name: b".".to_vec() });
            }
            Record::End => {
                writer.finish_place()?;
                return Ok(writer.filled);
            }
            Record::Leave => writer.leave()?,
            Record::File(head) => writer.file(head, source)?,
            record => writer.entry(record)?,
        }
    }
}

/// An open directory, whose metadata is set when it is complete.
struct Level {
    directory: Rc<OwnedFd>,
    metadata: Metadata,
    name: Vec<u8>,
}

struct Writer {
    levels: Vec<Level>,
    /// Where the files are that hard links name.
    files: HashMap<u64, (Rc<OwnedFd>, Vec<u8>)>,
    filled: Filled,
    buffer: Vec<u8>,
}

impl Writer {
    fn here(&self) -> Result<Rc<OwnedFd>, ArchiveError> {
        let level = self.levels.last().ok_or_else(|| refused(b"", Refusal::Damaged))?;
        Ok(Rc::clone(&level.directory))
    }

    fn entry(&mut self, record: Record) -> Result<(), ArchiveError> {
        let here = self.here()?;
        match record {
            Record::Enter { name, metadata, replaces } => {
                let directory = enter(here.as_fd(), &name, replaces).map_err(at(&name))?;
                let directory = Rc::new(directory);
                self.levels.push(Level { directory, metadata, name });
                Ok(())
            }
            Record::Link { name, target, modified } => {
                let made = make(here.as_fd(), &name, || {
                    symlinkat(target.as_slice(), &here, name.as_slice())
                });
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let times = times(modified);
                let timed = made.and_then(|()| utimensat(&here, name.as_slice(), &times, flags));
                timed.map_err(at(&name))
            }
            Record::HardLink { name, link } => {
                let found = self.files.get(&link);
                let (parent, old) = found.ok_or_else(|| refused(&name, Refusal::HardLink))?;
                make(here.as_fd(), &name, || {
                    linkat(parent, old.as_slice(), &here, name.as_slice(), AtFlags::empty())
                })
                .map_err(at(&name))
            }
            Record::Node { name, kind, metadata } => {
                self.node(here.as_fd(), &name, kind, &metadata).map_err(at(&name))
            }
            Record::Deleted { name } => remove(here.as_fd(), &name, MAX_DEPTH).map_err(at(&name)),
            Record::Place { .. } | Record::Leave | Record::File(_) | Record::End => Ok(()),
        }
    }

    fn node(
        &mut self,
        here: BorrowedFd<'_>,
        name: &[u8],
        kind: Node,
        metadata: &Metadata,
    ) -> Result<(), Errno> {
        let file_type = match kind {
            Node::Fifo => FileType::Fifo,
            Node::Socket => FileType::Socket,
        };
        let mode = Mode::from_raw_mode(metadata.mode & FILLED_MODE);
        match make(here, name, || mknodat(here, name, file_type, mode, 0)) {
            // Landlock keeps sockets out of places that the host shares.
            Err(Errno::ACCESS | Errno::PERM) => {
                self.filled.left_out += 1;
                return Ok(());
            }
            made => made?,
        }
        chmodat(here, name, mode, AtFlags::empty())?;
        utimensat(here, name, &times(metadata.modified), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn file(&mut self, head: FileHead, source: &mut impl Read) -> Result<(), ArchiveError> {
        let here = self.here()?;
        let failed = at(&head.name);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = head.name.as_slice();
        let created =
            make(here.as_fd(), name, || openat(&here, name, flags, Mode::from_raw_mode(0o600)));
        let file = File::from(created.map_err(&failed)?);
        let mut end = 0;
        while let Some(extent) = read_extent(source, head.size, end, &mut self.buffer)? {
            let mut written = 0;
            while written < extent.bytes {
                let rest = &self.buffer[written..];
                written += pwrite(&file, rest, extent.offset + written as u64).map_err(&failed)?;
            }
            end = extent.offset + extent.bytes as u64;
            self.filled.bytes += extent.bytes as u64;
        }
        if end < head.size {
            ftruncate(&file, head.size).map_err(&failed)?;
        }
        set(file.as_fd(), &head.metadata).map_err(&failed)?;
        if let Some(link) = head.link {
            self.files.insert(link, (here, head.name));
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), ArchiveError> {
        let Some(Level { directory, metadata, name }) = self.levels.pop() else { return Ok(()) };
        set(directory.as_fd(), &metadata).map_err(at(&name))
    }

    /// Completes the root of the current place, which may belong to the wall.
    fn finish_place(&mut self) -> Result<(), ArchiveError> {
        let Some(Level { directory, metadata, .. }) = self.levels.pop() else { return Ok(()) };
        match set(directory.as_fd(), &metadata) {
            Err(Errno::PERM | Errno::ACCESS | Errno::ROFS) | Ok(()) => Ok(()),
            Err(errno) => Err(at(b".")(errno)),
        }
    }
}

/// Opens a directory for writing into it, and makes it if it is missing.
fn enter(parent: BorrowedFd<'_>, name: &[u8], replaces: bool) -> Result<OwnedFd, Errno> {
    if replaces {
        remove(parent, name, MAX_DEPTH)?;
    }
    let mode = Mode::from_raw_mode(0o700);
    match mkdirat(parent, name, mode) {
        Ok(()) => return open::directory(parent, name, 0o700),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        remove(parent, name, MAX_DEPTH)?;
        mkdirat(parent, name, mode)?;
        return open::directory(parent, name, 0o700);
    }
    let directory = open::directory(parent, name, found.st_mode)?;
    if found.st_mode & 0o700 != 0o700 {
        fchmod(&directory, Mode::from_raw_mode(found.st_mode & 0o777 | 0o700))?;
    }
    Ok(directory)
}

/// Makes an entry. What has its name already is removed first.
fn make<T>(
    parent: BorrowedFd<'_>,
    name: &[u8],
    act: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match act() {
        Err(Errno::EXIST) => {
            remove(parent, name, MAX_DEPTH)?;
            act()
        }
        made => made,
    }
}

/// Removes an entry with everything below it, if it is there.
fn remove(parent: BorrowedFd<'_>, name: &[u8], depth: usize) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let inner = open::directory(parent, name, found.st_mode)?;
    if found.st_mode & 0o700 != 0o700 {
        fchmod(&inner, Mode::from_raw_mode(found.st_mode & 0o777 | 0o700))?;
    }
    let mut names = Vec::new();
    let mut entries = Dir::read_from(&inner)?;
    while let Some(entry) = entries.read() {
        names.push(entry?.file_name().to_owned());
    }
    for name in names.iter().map(|name| name.to_bytes()) {
        if !matches!(name, b"." | b"..") {
            remove(inner.as_fd(), name, depth)?;
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Sets the metadata of an open entry; the times last, which the rest changes.
fn set(entry: BorrowedFd<'_>, metadata: &Metadata) -> Result<(), Errno> {
    for (name, value) in &metadata.attributes {
        fsetxattr(entry, OsStr::from_bytes(name), value, XattrFlags::empty())?;
    }
    fchmod(entry, Mode::from_raw_mode(metadata.mode & FILLED_MODE))?;
    futimens(entry, &times(metadata.modified))
}

/// The time of modification twice: nothing reads the time of access.
pub(super) fn times(modified: Time) -> Timestamps {
    let tv_nsec = i64::from(modified.nanoseconds);
    let time = Timespec { tv_sec: modified.seconds, tv_nsec };
    Timestamps { last_access: time, last_modification: time }
}

fn at(name: &[u8]) -> impl Fn(Errno) -> ArchiveError + use<> {
    let name = name.to_vec();
    move |source| ArchiveError::File { name: name.clone(), source }
}
