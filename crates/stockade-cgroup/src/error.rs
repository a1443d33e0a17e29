//! Errors of cgroup operations.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::Controller;

/// A cgroup could not be created, read, emptied or removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// A directory was not created.
    #[error("create the cgroup {}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be opened.
    #[error("open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused a value.
    #[error("write {value:?} to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file lacks an expected value.
    #[error("find {expected} in {}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// The expected value.
        expected: &'static str,
    },
    /// A limit of zero, under which nothing could run.
    #[error("limit {controller} to zero")]
    ZeroLimit {
        /// The controller of the limit.
        controller: Controller,
    },
    /// The host does not allow this process to use a required controller.
    #[error("use the cgroup controller {controller}: {reason}; {remedy}")]
    Unavailable {
        /// The controller.
        controller: Controller,
        /// The cause.
        reason: String,
        /// Advice for the user.
        remedy: String,
    },
    /// The group has no directory with this controller.
    #[error("ask a group without the controller {controller}")]
    NoController {
        /// The controller.
        controller: Controller,
    },
    /// The kernel returned no random bytes for a name.
    #[error("draw an unguessable group name")]
    Random {
        /// The kernel's error.
        source: io::Error,
    },
    /// Processes were still inside at the deadline.
    #[error("empty the cgroup {}: {left} processes are left at the deadline", path.display())]
    StillPopulated {
        /// The directory that is not empty.
        path: PathBuf,
        /// How many processes it still lists.
        left: usize,
    },
    /// A directory could not be removed.
    #[error("remove the cgroup {}", path.display())]
    Remove {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}
