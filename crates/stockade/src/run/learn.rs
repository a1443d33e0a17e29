//! `--learn`: the policy that a run would have needed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use stockade_engine::RunReport;

use crate::args::PolicyFlags;
use crate::{Problem, load};

use super::flags;

/// Where to write the policy. The directory is opened before the run, so that code that may write
/// there cannot replace it.
pub(super) struct PolicyTarget {
    directory: OwnedFd,
    name: OsString,
    file: PathBuf,
}

impl PolicyTarget {
    /// Opens the directory of the file before anything runs. Refuses a file that exists.
    pub(super) fn open(file: &Path) -> Result<PolicyTarget, Problem> {
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
        if rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            let message = format!("--learn {}: the file exists", file.display());
            return Err(Problem::new(message, "name another file, or remove this one first"));
        }
        Ok(PolicyTarget { directory, name, file: file.to_owned() })
    }

    /// Writes the policy atomically. Never replaces a file that the run or another process created
    /// in the meantime, and follows no symbolic link.
    pub(super) fn write(
        &self,
        flags: &PolicyFlags,
        tools: &[String],
        report: &RunReport,
    ) -> anyhow::Result<()> {
        let text = flags::learned(flags, &report.learned, tools, &load::here()?)?;
        self.create(text.as_bytes()).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.file.display());
            Problem::new(message, "name a new file in a directory that you may write").into()
        })
    }

    fn create(&self, text: &[u8]) -> io::Result<()> {
        let mut aside = OsString::from(format!(".stockade-{}-", std::process::id()));
        aside.push(&self.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let mut made = File::from(rustix::fs::openat(&self.directory, &aside, flags, mode)?);
        let written = made.write_all(text).and_then(|()| {
            let (at, never) = (&self.directory, RenameFlags::NOREPLACE);
            rustix::fs::renameat_with(at, &aside, at, &self.name, never)?;
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
    fn learned_file_replaces_no_file_and_a_symlink_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("out.yaml"), folder.path().join("other"));
        let place = PolicyTarget::open(&file).unwrap();
        place.create(b"first").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"first");
        // The file appeared after the run started.
        assert!(place.create(b"second").is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"first");
        std::fs::remove_file(&file).unwrap();
        symlink(&other, &file).unwrap();
        assert!(place.create(b"third").is_err());
        assert!(!other.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn existing_file_to_learn_into_is_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("out.yaml"), folder.path().join("link"));
        std::fs::write(&file, "kept").unwrap();
        symlink("/nonexistent", &link).unwrap();
        for existing in [&file, &link] {
            let problem = PolicyTarget::open(existing).err().unwrap();
            assert!(problem.message.ends_with(": the file exists"), "{problem}");
        }
    }

    #[test]
    fn missing_directory_of_a_learned_file_is_refused() {
        for file in ["/nonexistent/out.yaml", "/", "/tmp/", "/dev/null/x"] {
            assert!(PolicyTarget::open(Path::new(file)).is_err(), "{file}");
        }
    }
}
