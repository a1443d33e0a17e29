//! `--learn`: the policy that a run would have needed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use stockade_engine::RunReport;

use crate::args::PolicyFlags;
use crate::{Problem, load};

use super::flags;

/// Where to write the policy. The directory is opened before the run, so that code that may write
/// there cannot replace it.
pub(super) struct Place {
    directory: OwnedFd,
    name: OsString,
    file: PathBuf,
}

impl Place {
    /// Opens the directory of the file before anything runs.
    pub(super) fn open(file: &Path) -> Result<Place, Problem> {
        let cannot = |why: String| {
            let message = format!("--learn {}: {why}", file.display());
            Problem::new(message, "name a file in a directory that is there")
        };
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let name = match file.file_name() {
            Some(name) if !file.is_dir() => name.to_owned(),
            _ => return Err(cannot("it is not the name of a file".to_owned())),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, folder, flags, Mode::empty())
            .map_err(|error| cannot(error.to_string()))?;
        Ok(Place { directory, name, file: file.to_owned() })
    }

    /// Writes the policy atomically. Replaces a symbolic link instead of following it.
    pub(super) fn write(
        &self,
        flags: &PolicyFlags,
        tools: &[String],
        report: &RunReport,
    ) -> anyhow::Result<()> {
        let text = flags::learned(flags, &report.learned, tools, &load::here()?)?;
        self.replace(text.as_bytes()).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.file.display());
            Problem::new(message, "name a file that you may write").into()
        })
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let mut aside = OsString::from(format!(".stockade-{}-", std::process::id()));
        aside.push(&self.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let mut made = File::from(rustix::fs::openat(&self.directory, &aside, flags, mode)?);
        let written = made.write_all(text).and_then(|()| {
            rustix::fs::renameat(&self.directory, &aside, &self.directory, &self.name)?;
            Ok(())
        });
        if written.is_err() {
            // Ignores the error: the temporary file stays if it cannot be removed.
            let _ = rustix::fs::unlinkat(&self.directory, &aside, AtFlags::empty());
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn learned_file_is_replaced_and_a_symlink_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("out.yaml"), folder.path().join("other"));
        let place = Place::open(&file).unwrap();
        place.replace(b"first").unwrap();
        place.replace(b"second").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"second");
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&other, "kept").unwrap();
        symlink(&other, &file).unwrap();
        place.replace(b"third").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
        assert_eq!(std::fs::read(&file).unwrap(), b"third");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn missing_directory_of_a_learned_file_is_refused() {
        for file in ["/nonexistent/out.yaml", "/", "/tmp/", "/dev/null/x"] {
            assert!(Place::open(Path::new(file)).is_err(), "{file}");
        }
    }
}
