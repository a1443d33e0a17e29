//! A private directory for the files of a measurement.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A directory that other users cannot read. Dropping it removes it and its contents.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new(purpose: &str) -> anyhow::Result<Directory> {
        let name = format!("stockade-bench-{}-{purpose}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {} for {purpose}", path.display()))?;
        Ok(Directory(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a file of that name.
    pub(super) fn file(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.0.join(name);
        let written = std::fs::write(&path, text);
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // If removal fails, the system's own cleanup of temporary directories applies.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
