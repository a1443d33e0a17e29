//! Unpacks and packs trees as tar archives.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use stockade_archive::{ArchiveError, Limits, Links, Refusal, Rename, pack, unpack};
use stockade_wire::{FileDone, FileFault, PathBytes};

use super::fault::{Failed, Fault};
use super::root::{Last, Missing, Root};

/// The sandbox's quota bounds the bytes, and its inodes bound the entries.
const LIMITS: Limits = Limits { entries: u64::MAX, bytes: u64::MAX };

/// Unpacks an archive into a directory, which is made if it is missing.
pub(super) fn upload(
    root: &Root,
    path: &PathBytes,
    archive: &mut impl Read,
) -> Result<FileDone, Failed> {
    let directory = root.directory(path, Missing::Make)?;
    let unpacked =
        unpack(archive, directory.as_fd(), Rename::Keep, Links::Any, LIMITS).map_err(failed)?;
    let (bytes, left_out) = (unpacked.bytes, unpacked.left_out);
    Ok(FileDone { bytes, left_out, changed: true, ..FileDone::default() })
}

/// Sends a file or a tree under the last component of its path.
pub(super) fn download(
    root: &Root,
    path: &PathBytes,
    last: Last,
    output: &mut impl Write,
) -> Result<FileDone, Failed> {
    let place = root.place(path, last, Missing::Fail)?;
    let parts = path.as_bytes().split(|byte| *byte == b'/');
    let name = parts.rev().find(|part| !matches!(*part, b"" | b".")).unwrap_or(b".");
    let packed = pack(place.directory.as_fd(), place.name().as_bytes(), name, output);
    let packed = packed.map_err(failed)?;
    Ok(FileDone { bytes: packed.bytes, left_out: packed.left_out, ..FileDone::default() })
}

/// The fault of an archive, at one of its entries.
pub(super) fn failed(error: ArchiveError) -> Failed {
    let (fault, name) = match error {
        ArchiveError::Stream { source } => return Fault::from(source).into(),
        ArchiveError::File { name, source } => (Fault::from(source), name),
        ArchiveError::Refused { name, refusal } => {
            let kind = match refusal {
                Refusal::Name | Refusal::Link | Refusal::HardLink => FileFault::Traversal,
                Refusal::LongName => FileFault::NameTooLong,
                Refusal::TooLarge => FileFault::TooLarge,
                Refusal::Special => FileFault::SpecialFile,
                Refusal::Changed => FileFault::Busy,
                _ => FileFault::Archive,
            };
            (kind.into(), name)
        }
    };
    Failed { fault, at: PathBytes::try_from(name).ok().filter(|name| !name.as_bytes().is_empty()) }
}
