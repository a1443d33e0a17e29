//! Lists a directory.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Dir;
use stockade_wire::{FileDone, FileEntry, FileFault, FileKind, PathBytes, encode};

use super::fault::Fault;
use super::root::{Missing, Root, open_directory};
use super::stat::stat_at;

/// The most levels of a tree: each costs an open descriptor.
pub(super) const MAX_DEPTH: u32 = 128;

/// Sends an entry for everything below a directory, `depth` levels deep. Follows no link.
pub(super) fn list(
    root: &Root,
    path: &PathBytes,
    depth: u32,
    most: u64,
    output: &mut impl Write,
) -> Result<FileDone, Fault> {
    let directory = root.directory(path, Missing::Fail)?;
    let mut listing = Listing { left: most, output };
    listing.level(&directory, &[], depth.min(MAX_DEPTH))?;
    Ok(FileDone::default())
}

struct Listing<'o, W> {
    /// How many entries may still be sent.
    left: u64,
    output: &'o mut W,
}

impl<W: Write> Listing<'_, W> {
    fn level(&mut self, directory: &OwnedFd, above: &[u8], depth: u32) -> Result<(), Fault> {
        if depth == 0 {
            return Ok(());
        }
        let mut entries = Dir::read_from(directory)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let stat = match stat_at(directory, OsStr::from_bytes(name)) {
                Ok(stat) => stat,
                // It was removed meanwhile.
                Err(fault) if fault.kind == FileFault::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            self.left = self.left.checked_sub(1).ok_or(FileFault::TooLarge)?;
            let is_directory = stat.kind == FileKind::Directory;
            let below = below(above, name);
            let path = PathBytes::try_from(below.clone()).map_err(|_| FileFault::NameTooLong)?;
            let frame = encode(&FileEntry { path, stat }).map_err(|_| FileFault::Other)?;
            self.output.write_all(&frame)?;
            if is_directory {
                match open_directory(directory, OsStr::from_bytes(name)) {
                    Ok(inner) => self.level(&inner, &below, depth - 1)?,
                    // It was removed or replaced meanwhile, or may not be read.
                    Err(fault) if is_passing(fault) => {}
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(())
    }
}

/// Whether a directory that was listed cannot be entered any more, or by this user.
fn is_passing(fault: Fault) -> bool {
    use FileFault::{NotADirectory, NotFound, Permission, Traversal};
    matches!(fault.kind, NotFound | NotADirectory | Traversal | Permission)
}

pub(super) fn below(above: &[u8], name: &[u8]) -> Vec<u8> {
    match above {
        [] => name.to_vec(),
        above => [above, b"/", name].concat(),
    }
}
