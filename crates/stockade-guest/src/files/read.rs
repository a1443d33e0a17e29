//! Reads a regular file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use stockade_wire::{FileDone, FileFault, MAX_CHUNK_BYTES, PathBytes};

use super::fault::Fault;
use super::root::{Last, Location, Missing, Root};

/// Sends `length` bytes from `offset` on, or all of them.
pub(super) fn read(
    root: &Root,
    path: &PathBytes,
    offset: u64,
    length: Option<u64>,
    output: &mut impl Write,
) -> Result<FileDone, Fault> {
    let place = root.place(path, Last::Follow, Missing::Fail)?;
    let mut file = open_regular(&place, OFlags::RDONLY)?;
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    let bytes = copy(&mut file.take(length.unwrap_or(u64::MAX)), output)?;
    Ok(FileDone { bytes, ..FileDone::default() })
}

/// Opens a regular file and nothing else. Never blocks, and follows no link.
pub(super) fn open_regular(place: &Location, flags: OFlags) -> Result<File, Fault> {
    // A FIFO or a file with a lease would block without NONBLOCK.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = openat(&place.directory, place.name(), flags, Mode::from_raw_mode(0o666))?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        FileType::Directory => Err(FileFault::IsADirectory.into()),
        _ => Err(FileFault::SpecialFile.into()),
    }
}

/// Copies all bytes; returns their number.
pub(super) fn copy(source: &mut impl Read, target: &mut impl Write) -> Result<u64, Fault> {
    let mut buffer = vec![0; MAX_CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(read) => {
                target.write_all(&buffer[..read])?;
                bytes += read as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
