//! What can go wrong with a cgroup.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::Controller;

/// A cgroup could not be made, asked, emptied or removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// A directory was not made.
    #[error("create the cgroup {}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be opened.
    #[error("open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused a value.
    #[error("write {value:?} to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file does not say what it should.
    #[error("find {expected} in {}", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        expected: &'static str,
    },
    /// A limit of zero: nothing could run under it.
    #[error("limit {controller} to zero")]
    ZeroLimit {
        /// What was to be limited.
        controller: Controller,
    },
    /// The host does not let this process use a controller that is needed.
    #[error("use the cgroup controller {controller}: {reason}; {remedy}")]
    Unavailable {
        /// The controller.
        controller: Controller,
        /// What stands in the way.
        reason: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// The group has no directory with this controller.
    #[error("ask a group without the controller {controller}")]
    NoController {
        /// The controller.
        controller: Controller,
    },
    /// The kernel gave no random bytes for a name.
    #[error("draw an unguessable group name")]
    Random {
        /// What the kernel said.
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
        /// What the kernel said.
        source: io::Error,
    },
}
