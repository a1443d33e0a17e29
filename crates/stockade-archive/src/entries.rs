//! Reads the entries of a tar archive.

use std::io::{self, Read};

use tar::{EntryType, Header};

use crate::error::{ArchiveError, Refusal};
use crate::pax::Extended;

const BLOCK_BYTES: usize = 512;
/// The maximum size of an extended header or a long name.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;
/// The maximum length of a name or a target, as the kernel's.
const MAX_NAME_BYTES: usize = 4095;

/// One entry. Its content comes from [`Entries`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Its name, in any bytes.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// What else the archive states about it.
    pub attributes: Attributes,
}

/// What an archive states about an entry; `None` if the field cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, with the set-id bits.
    pub mode: Option<u32>,
    /// The owner.
    pub user: Option<u64>,
    /// The group.
    pub group: Option<u64>,
    /// When it was changed, in seconds since 1970.
    pub modified: Option<u64>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file; its content follows.
    File {
        /// The size of its content.
        bytes: u64,
        /// Whether it is executable.
        executable: bool,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Link {
        /// Its target.
        target: Vec<u8>,
    },
    /// Another name of an earlier entry.
    HardLink {
        /// That entry.
        target: Vec<u8>,
    },
    /// A device or FIFO.
    Special,
}

/// The entries of an archive. Reading returns the content of the current entry.
pub struct Entries<R> {
    source: R,
    /// How many bytes of the content are left, and of the padding after it.
    left: u64,
    padding: u64,
}

impl<R: Read> Entries<R> {
    /// Reads an archive from its beginning.
    pub fn new(source: R) -> Entries<R> {
        Entries { source, left: 0, padding: 0 }
    }

    /// The stream behind the entries. After an entry its next bytes are the entry's content.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// The next entry; skips what is left of the content of the last one. After the end of the
    /// archive, reads the stream to its end.
    pub fn next_entry(&mut self) -> Result<Option<ArchiveEntry>, ArchiveError> {
        let (mut extended, mut long) = (Extended::default(), Extended::default());
        loop {
            self.skip()?;
            let Some(header) = self.header()? else {
                return match (extended, long) == Default::default() {
                    true => self.drain().map(|()| None),
                    false => Err(refused(&[], Refusal::Truncated)),
                };
            };
            let kind = header.entry_type();
            let stated = header.entry_size().map_err(|_| refused(&[], Refusal::Damaged))?;
            let name = || header.path_bytes().into_owned();
            match kind {
                EntryType::GNULongName => long.path = Some(self.long(stated)?),
                EntryType::GNULongLink => long.target = Some(self.long(stated)?),
                EntryType::XHeader => {
                    let records = self.extension(stated)?;
                    extended = Extended::read(&records).map_err(|why| refused(&name(), why))?;
                }
                EntryType::XGlobalHeader => {
                    let records = self.extension(stated)?;
                    // A path or a size for all entries has no meaning that two readers agree on.
                    match Extended::read(&records) {
                        Ok(Extended { path: None, target: None, bytes: None, .. }) => {}
                        Ok(_) => return Err(refused(&name(), Refusal::Kind)),
                        Err(why) => return Err(refused(&name(), why)),
                    }
                }
                kind => {
                    let name = extended.path.or(long.path).unwrap_or_else(name);
                    let own = || header.link_name_bytes().map(|it| it.into_owned());
                    let target = extended.target.or(long.target).or_else(own);
                    let bytes = match extended.bytes {
                        // The field is too small for the size, or agrees.
                        Some(bytes) if stated == 0 || stated == bytes => bytes,
                        Some(_) => return Err(refused(&name, Refusal::Size)),
                        None => stated,
                    };
                    let attributes = Attributes {
                        mode: header.mode().ok(),
                        user: extended.user.or_else(|| header.uid().ok()),
                        group: extended.group.or_else(|| header.gid().ok()),
                        modified: extended.modified.or_else(|| header.mtime().ok()),
                    };
                    let entry = self.entry(kind, name, target, bytes, attributes);
                    return entry.map(Some);
                }
            }
        }
    }

    fn entry(
        &mut self,
        kind: EntryType,
        name: Vec<u8>,
        target: Option<Vec<u8>>,
        bytes: u64,
        attributes: Attributes,
    ) -> Result<ArchiveEntry, ArchiveError> {
        let target = target.unwrap_or_default();
        if name.len() > MAX_NAME_BYTES || target.len() > MAX_NAME_BYTES {
            return Err(refused(&name, Refusal::LongName));
        }
        if name.contains(&0) || target.contains(&0) {
            return Err(refused(&name, Refusal::Name));
        }
        let kind = match kind {
            // Archives older than POSIX mark a directory only by its name.
            EntryType::Regular if name.ends_with(b"/") && bytes == 0 => EntryKind::Directory,
            EntryType::Regular | EntryType::Continuous => {
                let mode = attributes.mode.ok_or_else(|| refused(&name, Refusal::Damaged))?;
                EntryKind::File { bytes, executable: mode & 0o111 != 0 }
            }
            EntryType::Directory => EntryKind::Directory,
            EntryType::Symlink => EntryKind::Link { target },
            EntryType::Link => EntryKind::HardLink { target },
            EntryType::Char | EntryType::Block | EntryType::Fifo => EntryKind::Special,
            _ => return Err(refused(&name, Refusal::Kind)),
        };
        match kind {
            EntryKind::File { .. } => self.expect(bytes),
            // Readers disagree on whether content follows.
            _ if bytes != 0 => return Err(refused(&name, Refusal::Size)),
            _ => {}
        }
        Ok(ArchiveEntry { name, kind, attributes })
    }

    /// The next header; `None` at a block of zeros or at the end of the stream.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.source.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(refused(&[], Refusal::Truncated)),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ArchiveError::Stream { source }),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut summed = header.clone();
        summed.set_cksum();
        match (header.cksum(), summed.cksum()) {
            (Ok(stated), Ok(sum)) if stated == sum => Ok(Some(header)),
            _ => Err(refused(&[], Refusal::Damaged)),
        }
    }

    fn long(&mut self, bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.extension(bytes)?;
        while name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// The content of an entry that describes the next one.
    fn extension(&mut self, bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        if bytes > MAX_EXTENSION_BYTES {
            return Err(refused(&[], Refusal::LongName));
        }
        self.expect(bytes);
        let mut content = Vec::new();
        let read = self.read_to_end(&mut content);
        read.map_err(|source| ArchiveError::Stream { source })?;
        Ok(content)
    }

    fn expect(&mut self, bytes: u64) {
        self.left = bytes;
        self.padding = bytes.wrapping_neg() % BLOCK_BYTES as u64;
    }

    fn skip(&mut self) -> Result<(), ArchiveError> {
        let bytes = self.left.checked_add(self.padding);
        let bytes = bytes.ok_or_else(|| refused(&[], Refusal::Size))?;
        (self.left, self.padding) = (0, 0);
        let skipped = io::copy(&mut (&mut self.source).take(bytes), &mut io::sink());
        match skipped {
            Ok(skipped) if skipped == bytes => Ok(()),
            Ok(_) => Err(refused(&[], Refusal::Truncated)),
            Err(source) => Err(ArchiveError::Stream { source }),
        }
    }

    fn drain(&mut self) -> Result<(), ArchiveError> {
        let drained = io::copy(&mut self.source, &mut io::sink());
        drained.map(|_| ()).map_err(|source| ArchiveError::Stream { source })
    }
}

/// Reads the content of the current entry. An early end of the archive is an error.
impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        match self.source.read(&mut buffer[..wanted])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}

pub(crate) fn refused(name: &[u8], refusal: Refusal) -> ArchiveError {
    ArchiveError::Refused { name: name.to_vec(), refusal }
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;
