//! Writes a regular file.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use stockade_wire::{FileDone, FileFault, FileWrite, PathBytes};

use super::fault::Fault;
use super::read::{copy, open_regular};
use super::root::{Last, Location, Missing, Root};

/// Writes all bytes of `input` to a file, and makes missing directories.
pub(super) fn write(
    root: &Root,
    path: &PathBytes,
    mode: FileWrite,
    executable: bool,
    input: &mut impl Read,
) -> Result<FileDone, Fault> {
    let place = root.place(path, Last::Follow, Missing::Make)?;
    let bytes = match mode {
        FileWrite::Append => append(&place, executable, input)?,
        FileWrite::Replace | FileWrite::Create => replace(&place, mode, executable, input)?,
    };
    Ok(FileDone { bytes, changed: true, ..FileDone::default() })
}

fn append(place: &Location, executable: bool, input: &mut impl Read) -> Result<u64, Fault> {
    let mut file = open_regular(place, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
    if executable {
        fchmod(&file, Mode::from_raw_mode(0o755))?;
    }
    copy(input, &mut file)
}

/// Writes a temporary file next to the file and renames it: readers see the old content or the new.
fn replace(
    place: &Location,
    mode: FileWrite,
    executable: bool,
    input: &mut impl Read,
) -> Result<u64, Fault> {
    let permissions = permissions(place, mode, executable)?;
    let mut temporary = Temporary::new(&place.directory)?;
    let bytes = copy(input, &mut temporary.file)?;
    fchmod(&temporary.file, permissions)?;
    temporary.become_file(place, mode)?;
    Ok(bytes)
}

/// The permissions of the new file: those of the old, if there is one.
fn permissions(place: &Location, mode: FileWrite, executable: bool) -> Result<Mode, Fault> {
    let old = match statat(&place.directory, place.name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) => old,
        Err(Errno::NOENT) => {
            return Ok(Mode::from_raw_mode(if executable { 0o755 } else { 0o644 }));
        }
        Err(errno) => return Err(errno.into()),
    };
    match FileType::from_raw_mode(old.st_mode) {
        FileType::RegularFile if mode == FileWrite::Create => Err(FileFault::Exists.into()),
        FileType::RegularFile if executable => Ok(Mode::from_raw_mode(0o755)),
        FileType::RegularFile => Ok(Mode::from_raw_mode(old.st_mode & 0o777)),
        FileType::Directory => Err(FileFault::IsADirectory.into()),
        // It became a link after the path was resolved.
        FileType::Symlink => Err(FileFault::Traversal.into()),
        _ => Err(FileFault::SpecialFile.into()),
    }
}

/// A file with a random name, removed when it is dropped.
struct Temporary<'d> {
    directory: &'d OwnedFd,
    name: OsString,
    file: File,
    is_named: bool,
}

impl Temporary<'_> {
    fn new(directory: &OwnedFd) -> Result<Temporary<'_>, Fault> {
        let random: [u8; 8] = stockade_sys::random_bytes()?;
        let name = OsString::from(format!(".stockade-{:016x}", u64::from_le_bytes(random)));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &name, flags, Mode::from_raw_mode(0o600))?;
        Ok(Temporary { directory, name, file: file.into(), is_named: false })
    }

    /// Renames it. A directory or, for a new file, any file of that name makes this fail.
    fn become_file(mut self, place: &Location, mode: FileWrite) -> Result<(), Fault> {
        let renamed = match mode {
            FileWrite::Create => renameat_with(
                self.directory,
                &self.name,
                &place.directory,
                place.name(),
                RenameFlags::NOREPLACE,
            ),
            _ => renameat(self.directory, &self.name, &place.directory, place.name()),
        };
        renamed?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // Fails only if a program inside has removed it.
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
