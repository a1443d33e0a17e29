//! Why the fake internet could not be made.

use std::io;
use std::path::PathBuf;

/// Why a process could not enter the fake internet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnterError {
    /// The kernel refuses namespaces to this user.
    #[error("making namespaces for the fake internet; it needs root or user namespaces")]
    Namespaces {
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// Rights in the new user namespace could not be passed on.
    #[error("arranging {what} in the namespaces of the fake internet")]
    Rights {
        /// What was being done.
        what: &'static str,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// There is no `ip`.
    #[error("running ip, which lays the wire of the fake internet; install iproute2")]
    NoIpProgram {
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// `ip` refused.
    #[error("laying the wire of the fake internet: {reason}")]
    Links {
        /// What `ip` said.
        reason: String,
    },
    /// A file could not be made, read or covered.
    #[error("preparing {path} for the fake internet")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The process with the servers did not start.
    #[error("starting the servers of the fake internet: {reason}")]
    Servers {
        /// What it said.
        reason: String,
    },
}

impl EnterError {
    /// For a failed act on a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> EnterError {
        let path = path.into();
        |source| EnterError::File { path, source }
    }

    /// The whole chain in one line, for those who say why a test does not run.
    pub fn in_one_line(&self) -> String {
        let mut line = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            line.push_str(&format!(": {source}"));
            next = source.source();
        }
        line
    }
}
