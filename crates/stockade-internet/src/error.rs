//! Why the fake internet could not be created.

use std::io;
use std::path::PathBuf;

/// Why a process could not enter the fake internet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnterError {
    /// The kernel refuses namespaces to this user.
    #[error("making namespaces for the fake internet; it needs root or user namespaces")]
    Namespaces {
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The capabilities in the new user namespace could not be changed.
    #[error("setting {what} in the namespaces of the fake internet")]
    Rights {
        /// The failed operation.
        what: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The program `ip` is missing.
    #[error("running ip, which creates the link of the fake internet; install iproute2")]
    NoIpProgram {
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// `ip` failed.
    #[error("creating the link of the fake internet: {reason}")]
    Links {
        /// The error output of `ip`.
        reason: String,
    },
    /// A file could not be created, read or covered.
    #[error("preparing {path} for the fake internet")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server process did not start.
    #[error("starting the servers of the fake internet: {reason}")]
    Servers {
        /// Its error output.
        reason: String,
    },
}

impl EnterError {
    /// Converts the error of an operation on a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> EnterError {
        let path = path.into();
        |source| EnterError::File { path, source }
    }

    /// The whole error chain in one line, for the reason why a test was skipped.
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
