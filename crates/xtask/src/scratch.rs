//! Temporary folders that remove themselves.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use anyhow::{Context, Result};

/// A new folder that only its owner may enter; dropping it removes it with its contents.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(purpose: &str) -> Result<Scratch> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("stockade-{purpose}-{}-{number}", process::id());
        let path = env::temp_dir().join(name);
        // Not create_dir_all: refuses a folder that another user prepared under this name.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Scratch { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ignored: a leftover in the temporary folder is no reason to fail.
        let _ = fs::remove_dir_all(&self.path);
    }
}
