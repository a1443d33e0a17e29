//! Everything of the host that a sandbox sees.

use std::path::PathBuf;

use stockade_hostfiles::Shown;
use stockade_interpreters::{Bind, Link};
use stockade_launcher::TreeKind;

use crate::commands::Commands;

/// What stands at the top of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The host's own programs and libraries.
    System {
        /// Directories and files, shown read-only under their own names.
        binds: Vec<(Bind, TreeKind)>,
        /// Links to make.
        links: Vec<Link>,
    },
    /// A directory of the host.
    Directory(PathBuf),
}

/// Everything of the host that a sandbox sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFiles {
    pub(crate) base: Base,
    /// Mounts and the workspace, outer ones before those below them.
    pub(crate) shown: Vec<Shown>,
    /// Set where the policy lists what may be started.
    pub(crate) commands: Option<Commands>,
    /// Directories inside that nothing may rename or remove.
    pub(crate) pinned: Vec<PathBuf>,
}
