//! Where the runs of a measurement keep their records: they are measured with them, and leave none.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A directory for records that goes with the measurement.
pub(super) struct Records(PathBuf);

impl Records {
    pub(super) fn new() -> anyhow::Result<Records> {
        let name = format!("stockade-bench-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {} for records", path.display()))?;
        Ok(Records(path))
    }

    /// `stockade run` with some words, as it runs when nobody says more.
    pub(super) fn ours(&self, stockade: &Path, words: &[&str]) -> Vec<OsString> {
        let mut argv = vec![stockade.as_os_str().to_owned()];
        argv.extend(["run", "--quiet", "--record"].map(OsString::from));
        argv.push(self.0.clone().into_os_string());
        argv.extend(words.iter().map(OsString::from));
        argv
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // Left for the system's own cleaning of its temporary directory if it cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
