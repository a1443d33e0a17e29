//! Opens and checks a directory of records.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::place::{PlaceError, RecordDirectory};

const PRIVATE: Mode = Mode::RWXU;

/// An open directory that only its owner may enter.
pub(crate) struct Directory {
    pub(crate) descriptor: OwnedFd,
    pub(crate) path: PathBuf,
}

impl Directory {
    /// Opens a place, and creates its missing directories.
    pub(crate) fn open_or_make(place: &RecordDirectory) -> Result<Directory, PlaceError> {
        let (mut descriptor, mut path) = (base(&place.base)?, place.base.clone());
        for name in &place.own {
            path.push(name);
            descriptor = match private(&descriptor, name, &path) {
                Err(PlaceError::Open { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    make(&descriptor, name, &path)?;
                    private(&descriptor, name, &path)?
                }
                opened => opened?,
            };
        }
        Ok(Directory { descriptor, path })
    }

    /// Opens an existing place for reading. A place that the user named may belong to any user.
    pub(crate) fn open(place: &RecordDirectory) -> Result<Option<Directory>, PlaceError> {
        let mut path = place.base.clone();
        if place.is_named {
            path = place.path();
        }
        let mut descriptor = match openat(CWD, &path, OFlags::RDONLY | FLAGS, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR) if !place.is_named => return Ok(None),
            Err(error) => return Err(PlaceError::Open { path, source: error.into() }),
        };
        for name in place.own.iter().filter(|_| !place.is_named) {
            path.push(name);
            descriptor = match private(&descriptor, name, &path) {
                Err(PlaceError::Open { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    return Ok(None);
                }
                opened => opened?,
            };
        }
        Ok(Some(Directory { descriptor, path }))
    }
}

const FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Opens the directory above our own directories.
fn base(path: &Path) -> Result<OwnedFd, PlaceError> {
    let open = || openat(CWD, path, OFlags::PATH | FLAGS, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => {
            let mut builder = std::fs::DirBuilder::new();
            let made = builder.recursive(true).mode(PRIVATE.bits()).create(path);
            made.map_err(|source| PlaceError::Make { path: path.to_owned(), source })?;
            open()
        }
        opened => opened,
    };
    opened.map_err(|error| PlaceError::Open { path: path.to_owned(), source: error.into() })
}

fn make(above: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), PlaceError> {
    match mkdirat(above, name, PRIVATE) {
        // A concurrent session created it; it is checked like any other directory.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(PlaceError::Make { path: path.to_owned(), source: error.into() }),
    }
}

/// Opens one of our directories relative to its parent's descriptor, so that the checked directory
/// is the one used.
fn private(above: &OwnedFd, name: &OsStr, path: &Path) -> Result<OwnedFd, PlaceError> {
    let path = || path.to_owned();
    let opened = openat(above, name, FLAGS | OFlags::NOFOLLOW | OFlags::RDONLY, Mode::empty());
    let descriptor = match opened {
        Ok(descriptor) => descriptor,
        // O_DIRECTORY with O_NOFOLLOW reports a link as ENOTDIR, open(2).
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(PlaceError::NoDirectory { path: path() }),
        Err(error) => return Err(PlaceError::Open { path: path(), source: error.into() }),
    };
    let found = fstat(&descriptor)
        .map_err(|error| PlaceError::Open { path: path(), source: error.into() })?;
    let user = geteuid().as_raw();
    if found.st_uid != user {
        return Err(PlaceError::NotOurs { path: path(), owner: found.st_uid, user });
    }
    let mode = Mode::from_raw_mode(found.st_mode);
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        return Err(PlaceError::OpenToOthers { path: path(), mode: mode.bits() });
    }
    Ok(descriptor)
}
