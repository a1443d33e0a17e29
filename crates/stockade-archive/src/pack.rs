//! Packs a file or a tree into an archive.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use tar::{EntryType, Header};

use crate::beneath::open;
use crate::entries::refused;
use crate::error::{ArchiveError, Refusal};

/// The most levels of a tree: each costs an open descriptor.
const MAX_DEPTH: usize = 128;
const BLOCK_BYTES: u64 = 512;

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The size of all content.
    pub bytes: u64,
    /// How many devices, FIFOs and sockets were left out.
    pub left_out: u64,
}

/// Packs the file, link or tree `name` of a directory under another name. Follows no link.
///
/// Devices, FIFOs and sockets in a tree are left out; `name` itself must be something else. A file
/// that grows meanwhile is packed with its size at the beginning.
pub fn pack(
    parent: BorrowedFd<'_>,
    name: &[u8],
    packed_name: &[u8],
    output: impl Write,
) -> Result<Packed, ArchiveError> {
    pack_without(parent, name, packed_name, &HashSet::new(), output)
}

/// Like [`pack`], without the content of some paths of the archive: a directory there is packed
/// empty, and so is a file. A link there is left out.
pub fn pack_without(
    parent: BorrowedFd<'_>,
    name: &[u8],
    packed_name: &[u8],
    emptied: &HashSet<Vec<u8>>,
    output: impl Write,
) -> Result<Packed, ArchiveError> {
    let mut packing = Packing { output, emptied, done: Packed::default() };
    packing.one(parent, name, packed_name, MAX_DEPTH)?;
    if packing.done.left_out > 0 && packing.done.bytes == 0 {
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| is_special(&found)) {
            return Err(refused(packed_name, Refusal::Special));
        }
    }
    // Two empty blocks are the end.
    packing.write(&[0; 2 * BLOCK_BYTES as usize])?;
    packing.output.flush().map_err(|source| ArchiveError::Stream { source })?;
    Ok(packing.done)
}

fn is_special(found: &Stat) -> bool {
    use FileType::{Directory, RegularFile, Symlink};
    !matches!(FileType::from_raw_mode(found.st_mode), Directory | RegularFile | Symlink)
}

struct Packing<'e, W> {
    output: W,
    emptied: &'e HashSet<Vec<u8>>,
    done: Packed,
}

impl<W: Write> Packing<'_, W> {
    fn one(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        depth: usize,
    ) -> Result<(), ArchiveError> {
        let failed = |source| ArchiveError::File { name: path.to_vec(), source };
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let is_emptied = self.emptied.contains(path);
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if is_emptied => {
                self.header(path, &found, EntryType::Regular, 0, &[])
            }
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Symlink if is_emptied => Ok(()),
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new()).map_err(failed)?;
                self.header(path, &found, EntryType::Symlink, 0, target.as_bytes())
            }
            FileType::Directory => {
                let directory = open(parent, name).map_err(failed)?;
                self.header(&[path, b"/"].concat(), &found, EntryType::Directory, 0, &[])?;
                if is_emptied {
                    return Ok(());
                }
                let depth = depth.checked_sub(1);
                let depth = depth.ok_or_else(|| refused(path, Refusal::TooLarge))?;
                self.directory(directory.as_fd(), path, depth)
            }
            _ => {
                self.done.left_out += 1;
                Ok(())
            }
        }
    }

    fn directory(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &[u8],
        depth: usize,
    ) -> Result<(), ArchiveError> {
        let failed = |source| ArchiveError::File { name: path.to_vec(), source };
        let mut entries = Dir::read_from(directory).map_err(failed)?;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match self.one(directory, name, &[path, b"/", name].concat(), depth) {
                // It was removed or replaced meanwhile.
                Err(ArchiveError::File {
                    source: Errno::NOENT | Errno::LOOP | Errno::NOTDIR,
                    ..
                }) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), ArchiveError> {
        let failed = |source| ArchiveError::File { name: path.to_vec(), source };
        // Without NONBLOCK a FIFO that replaced the file would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(parent, name, flags, Mode::empty()).map_err(failed)?;
        let found = fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            self.done.left_out += 1;
            return Ok(());
        }
        let bytes = u64::try_from(found.st_size).unwrap_or(0);
        self.header(path, &found, EntryType::Regular, bytes, &[])?;
        let copied = self.copy(file.into(), bytes, path)?;
        if copied != bytes {
            return Err(refused(path, Refusal::Changed));
        }
        self.done.bytes += bytes;
        self.pad(bytes)
    }

    fn copy(&mut self, file: File, bytes: u64, path: &[u8]) -> Result<u64, ArchiveError> {
        let mut source = file.take(bytes);
        let mut buffer = vec![0; 64 << 10];
        let mut copied = 0;
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return Ok(copied),
                Ok(read) => {
                    self.write(&buffer[..read])?;
                    copied += read as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    return Err(ArchiveError::File { name: path.to_vec(), source });
                }
            }
        }
    }

    fn header(
        &mut self,
        path: &[u8],
        found: &Stat,
        kind: EntryType,
        bytes: u64,
        target: &[u8],
    ) -> Result<(), ArchiveError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes);
        header.set_mode(found.st_mode & 0o777);
        header.set_mtime(u64::try_from(found.st_mtime).unwrap_or(0));
        self.long(EntryType::GNULongName, path, NAME_BYTES)?;
        self.long(EntryType::GNULongLink, target, NAME_BYTES)?;
        let fields = header.as_old_mut();
        put(&mut fields.name, path);
        put(&mut fields.linkname, target);
        header.set_cksum();
        self.write(header.as_bytes())
    }

    /// Writes a name that does not fit into a header as an entry of its own.
    fn long(&mut self, kind: EntryType, name: &[u8], fits: usize) -> Result<(), ArchiveError> {
        if name.len() <= fits {
            return Ok(());
        }
        let bytes = name.len() as u64 + 1;
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes);
        header.set_mode(0o644);
        put(&mut header.as_old_mut().name, b"././@LongLink");
        header.set_cksum();
        self.write(header.as_bytes())?;
        self.write(&[name, &[0]].concat())?;
        self.pad(bytes)
    }

    fn pad(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let padding = bytes.wrapping_neg() % BLOCK_BYTES;
        self.write(&[0; BLOCK_BYTES as usize][..padding as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.output.write_all(bytes).map_err(|source| ArchiveError::Stream { source })
    }
}

/// The size of the name in a header.
const NAME_BYTES: usize = 100;

/// Writes as many bytes as fit.
fn put(field: &mut [u8], bytes: &[u8]) {
    let length = field.len().min(bytes.len());
    field[..length].copy_from_slice(&bytes[..length]);
}
