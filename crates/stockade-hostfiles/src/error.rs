//! Why a host file cannot be shown.

use std::io;
use std::path::{Path, PathBuf};

/// A host file cannot be shown as the policy asks.
#[derive(Debug, thiserror::Error)]
pub enum HostFileError {
    /// A host path of the policy cannot be used.
    #[error("cannot show {} inside: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The mounts of this process cannot be read.
    #[error("cannot read what is mounted where")]
    Mounts {
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

impl HostFileError {
    /// Creates the error from a path, the reason and the remedy.
    pub fn path(
        path: &Path,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> HostFileError {
        HostFileError::Path { path: path.to_owned(), reason: reason.into(), remedy: remedy.into() }
    }
}
