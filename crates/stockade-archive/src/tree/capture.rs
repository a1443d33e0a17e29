//! Reads trees, inside a sandbox whose programs are stopped.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, SeekFrom, Stat, fstat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};

use super::content::{
    Extent, HASH_BYTES, MAX_EXTENT_BYTES, end_content, is_same_chunk, write_chunk, write_extent,
};
use super::open;
use super::record::{FileHead, MAX_DEPTH, Metadata, Node, Record, refused, stream};
use crate::{ArchiveError, Refusal};

/// A writable place to read.
#[derive(Debug)]
pub struct CapturedPlace {
    /// Its number.
    pub number: u32,
    /// Its directory, or that of the upper layer of its overlay.
    pub directory: OwnedFd,
    /// The overlay, if the directory is its upper layer.
    pub overlay: Option<OwnedFd>,
    /// Names right below it that are not the programs'.
    pub skip: Vec<Vec<u8>>,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many entries.
    pub entries: u64,
    /// How many bytes of content, without holes.
    pub bytes: u64,
    /// How many devices were left out.
    pub left_out: u64,
}

/// The hash of a chunk.
pub type HashFunction = fn(&[u8]) -> [u8; HASH_BYTES];

/// Sends everything in the places. Follows no link and enters no other file system.
pub fn capture(places: &[CapturedPlace], output: &mut impl Write) -> Result<Counted, ArchiveError> {
    walk(places, output, None)
}

/// Sends the same, with the hashes of content in place of content.
pub fn digest(
    places: &[CapturedPlace],
    output: &mut impl Write,
    hash: HashFunction,
) -> Result<Counted, ArchiveError> {
    walk(places, output, Some(hash))
}

fn walk(
    places: &[CapturedPlace],
    output: &mut impl Write,
    hash: Option<HashFunction>,
) -> Result<Counted, ArchiveError> {
    let mut walk = Walk {
        output,
        hash,
        chunk: Chunk::default(),
        files: HashMap::new(),
        counted: Counted::default(),
        buffer: vec![0; MAX_EXTENT_BYTES / 4],
        head: Vec::new(),
    };
    for place in places {
        let failed = |source| ArchiveError::File { name: b".".to_vec(), source };
        let found = fstat(&place.directory).map_err(failed)?;
        let metadata = open::metadata(place.directory.as_fd(), &found).map_err(failed)?;
        let (number, overlay) = (place.number, place.overlay.as_ref().map(AsFd::as_fd));
        walk.say(&Record::Place { number, changes: overlay.is_some(), metadata })?;
        let level = Level { overlay, device: found.st_dev, depth: 0, skip: &place.skip };
        walk.directory(place.directory.as_fd(), &level)?;
    }
    walk.say(&Record::End)?;
    Ok(walk.counted)
}

/// What is known about a directory.
struct Level<'s> {
    /// The same directory in the overlay.
    overlay: Option<BorrowedFd<'s>>,
    device: u64,
    depth: usize,
    skip: &'s [Vec<u8>],
}

/// Data of a file whose hash is not sent yet.
#[derive(Default)]
struct Chunk {
    offset: u64,
    bytes: Vec<u8>,
}

struct Walk<'o, W> {
    output: &'o mut W,
    /// `None` if the content itself is sent.
    hash: Option<HashFunction>,
    chunk: Chunk,
    /// The numbers of files with several names, by inode.
    files: HashMap<(u64, u64), u64>,
    counted: Counted,
    buffer: Vec<u8>,
    head: Vec<u8>,
}

impl<W: Write> Walk<'_, W> {
    fn directory(
        &mut self,
        directory: BorrowedFd<'_>,
        level: &Level<'_>,
    ) -> Result<(), ArchiveError> {
        for name in names(directory).map_err(at(b"."))? {
            if level.skip.contains(&name) {
                continue;
            }
            let found = statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            let found = found.map_err(at(&name))?;
            // Another file system is mounted there.
            if found.st_dev == level.device {
                self.entry(directory, name, &found, level)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: Vec<u8>,
        found: &Stat,
        level: &Level<'_>,
    ) -> Result<(), ArchiveError> {
        let failed = at(&name);
        let kind = FileType::from_raw_mode(found.st_mode);
        self.counted.entries += 1;
        match kind {
            FileType::Directory => self.enter(directory, name, found, level),
            FileType::RegularFile => self.file(directory, name, found),
            FileType::Symlink => {
                let target = readlinkat(directory, name.as_slice(), Vec::new()).map_err(failed)?;
                let (target, modified) = (target.into_bytes(), open::modified(found));
                self.say(&Record::Link { name, target, modified })
            }
            FileType::Fifo | FileType::Socket => {
                let kind = if kind == FileType::Fifo { Node::Fifo } else { Node::Socket };
                let metadata = Metadata::new(found.st_mode, open::modified(found));
                self.say(&Record::Node { name, kind, metadata })
            }
            // How an overlay marks a deletion.
            FileType::CharacterDevice if level.overlay.is_some() && found.st_rdev == 0 => {
                self.say(&Record::Deleted { name })
            }
            _ => {
                self.counted.entries -= 1;
                self.counted.left_out += 1;
                Ok(())
            }
        }
    }

    fn enter(
        &mut self,
        directory: BorrowedFd<'_>,
        name: Vec<u8>,
        found: &Stat,
        level: &Level<'_>,
    ) -> Result<(), ArchiveError> {
        if level.depth == MAX_DEPTH {
            return Err(refused(&name, Refusal::TooLarge));
        }
        let inner = open::directory(directory, &name, found.st_mode).map_err(at(&name))?;
        let metadata = open::metadata(inner.as_fd(), found).map_err(at(&name))?;
        let open = |above| open::directory(above, &name, found.st_mode).map_err(at(&name));
        let merged = level.overlay.map(open).transpose()?;
        let replaces = match &merged {
            Some(merged) => !open::is_merged(merged.as_fd()).map_err(at(&name))?,
            None => false,
        };
        self.say(&Record::Enter { name, metadata, replaces })?;
        let (overlay, depth) = (merged.as_ref().map(AsFd::as_fd), level.depth + 1);
        let below = Level { overlay, depth, skip: &[], device: level.device };
        self.directory(inner.as_fd(), &below)?;
        self.say(&Record::Leave)
    }

    fn file(
        &mut self,
        directory: BorrowedFd<'_>,
        name: Vec<u8>,
        found: &Stat,
    ) -> Result<(), ArchiveError> {
        let mut link = None;
        if found.st_nlink > 1 {
            let (new, inode) = (self.files.len() as u64, (found.st_dev, found.st_ino));
            match self.files.get(&inode) {
                Some(link) => return self.say(&Record::HardLink { name, link: *link }),
                None => self.files.insert(inode, new),
            };
            link = Some(new);
        }
        let opened = open::file(directory, &name, found.st_mode).map_err(at(&name))?;
        let again = fstat(&opened).map_err(at(&name))?;
        if (again.st_ino, again.st_dev) != (found.st_ino, found.st_dev) {
            return Err(refused(&name, Refusal::Changed));
        }
        let metadata = open::metadata(opened.as_fd(), found).map_err(at(&name))?;
        let size = u64::try_from(again.st_size).unwrap_or(0);
        let failed = name.clone();
        self.say(&Record::File(FileHead { name, metadata, size, link }))?;
        self.content(opened.as_fd(), size, &failed)?;
        self.send_chunk()?;
        end_content(self.output).map_err(stream)
    }

    /// Sends data that was read into the buffer, or adds it to the chunk.
    fn data(&mut self, offset: u64, read: usize) -> Result<(), ArchiveError> {
        self.counted.bytes += read as u64;
        if self.hash.is_none() {
            return write_extent(offset, &self.buffer[..read], self.output).map_err(stream);
        }
        let end = self.chunk.offset + self.chunk.bytes.len() as u64;
        if !is_same_chunk(end, self.chunk.bytes.len(), Extent { offset, bytes: read }) {
            self.send_chunk()?;
            self.chunk.offset = offset;
        }
        self.chunk.bytes.extend_from_slice(&self.buffer[..read]);
        Ok(())
    }

    /// Sends the hash of the chunk, if there is one.
    fn send_chunk(&mut self) -> Result<(), ArchiveError> {
        let Chunk { offset, bytes } = &mut self.chunk;
        if let (Some(hash), false) = (self.hash, bytes.is_empty()) {
            write_chunk(*offset, bytes.len(), &hash(bytes), self.output).map_err(stream)?;
        }
        bytes.clear();
        Ok(())
    }

    /// Sends the parts that have data.
    fn content(
        &mut self,
        file: BorrowedFd<'_>,
        size: u64,
        name: &[u8],
    ) -> Result<(), ArchiveError> {
        let mut at_byte = 0;
        while at_byte < size {
            let start = match seek(file, SeekFrom::Data(at_byte)) {
                Ok(start) => start,
                // Only a hole is left.
                Err(Errno::NXIO) => return Ok(()),
                // gVisor does not know where the holes are.
                Err(Errno::INVAL) => return self.dense(file, size, name),
                Err(errno) => return Err(at(name)(errno)),
            };
            let end = seek(file, SeekFrom::Hole(start)).map_err(at(name))?.min(size);
            at_byte = start;
            while at_byte < end {
                let left = usize::try_from(end - at_byte).unwrap_or(usize::MAX);
                let wanted = left.min(self.buffer.len());
                let read = pread(file, &mut self.buffer[..wanted], at_byte).map_err(at(name))?;
                if read == 0 {
                    return Err(refused(name, Refusal::Changed));
                }
                self.data(at_byte, read)?;
                at_byte += read as u64;
            }
        }
        Ok(())
    }

    /// Reads the whole file, and leaves out what is only zeros.
    fn dense(&mut self, file: BorrowedFd<'_>, size: u64, name: &[u8]) -> Result<(), ArchiveError> {
        let mut at_byte = 0;
        while at_byte < size {
            let left = usize::try_from(size - at_byte).unwrap_or(usize::MAX);
            let wanted = left.min(self.buffer.len());
            let read = pread(file, &mut self.buffer[..wanted], at_byte).map_err(at(name))?;
            if read == 0 {
                return Err(refused(name, Refusal::Changed));
            }
            if self.buffer[..read].iter().any(|byte| *byte != 0) {
                self.data(at_byte, read)?;
            }
            at_byte += read as u64;
        }
        Ok(())
    }

    fn say(&mut self, record: &Record) -> Result<(), ArchiveError> {
        self.head.clear();
        record.encode(&mut self.head);
        self.output.write_all(&self.head).map_err(stream)
    }
}

fn at(name: &[u8]) -> impl Fn(Errno) -> ArchiveError + use<> {
    let name = name.to_vec();
    move |source| ArchiveError::File { name: name.clone(), source }
}

/// The names in a directory, sorted.
fn names(directory: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    let mut entries = Dir::read_from(directory)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}
