//! The host files that a sandbox sees.

use std::path::PathBuf;

use stockade_hostfiles::Shown;
use stockade_interpreters::{Bind, Link};
use stockade_launcher::TreeKind;

use crate::commands::Commands;

/// The source of a sandbox's root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The host's own programs and libraries.
    System {
        /// Directories and files, shown read-only at their host paths.
        binds: Vec<(Bind, TreeKind)>,
        /// Symbolic links to create.
        links: Vec<Link>,
    },
    /// A directory of the host.
    Directory(PathBuf),
    /// The files of an image.
    Image {
        /// Where they are.
        directory: PathBuf,
        /// The files inside that keep the image's content although the wall has its own.
        own: Vec<PathBuf>,
    },
}

/// The host files that a sandbox sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFiles {
    pub(crate) base: Base,
    /// Mounts and the workspace, outer ones first.
    pub(crate) shown: Vec<Shown>,
    /// Set if the policy has a `command_allowlist`.
    pub(crate) commands: Option<Commands>,
    /// Directories inside that no program may rename or remove.
    pub(crate) pinned: Vec<PathBuf>,
}
