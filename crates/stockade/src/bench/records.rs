//! A temporary directory for the records of measured runs: recording is part of the cost.

use std::ffi::OsString;
use std::path::Path;

use super::directory::Directory;

/// A directory for records that is removed after the measurement.
pub(super) struct Records(Directory);

impl Records {
    pub(super) fn new() -> anyhow::Result<Records> {
        Ok(Records(Directory::new("records")?))
    }

    /// `stockade run` with the default options and these arguments.
    pub(super) fn ours(&self, stockade: &Path, words: &[&str]) -> Vec<OsString> {
        let mut argv = vec![stockade.as_os_str().to_owned()];
        argv.extend(["run", "--quiet", "--record"].map(OsString::from));
        argv.push(self.0.path().into());
        argv.extend(words.iter().map(OsString::from));
        argv
    }
}
