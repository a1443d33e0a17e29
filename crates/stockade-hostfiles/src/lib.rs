//! Resolves and checks every host path of a policy before a wall is built. Refuses what a mount
//! could not keep hidden or read-only. Also reads and compiles its seccomp profiles.

mod covered;
mod error;
mod filters;
mod mounts;
mod proc_paths;
mod shown;
mod sockets;
mod unlisted;

pub use covered::{pinned_directories, refuse_read_below_writable};
pub use error::HostFileError;
pub use filters::{FilterError, ProgramFilters, program_filters};
pub use mounts::Mounts;
pub use proc_paths::{MASKED_PROC, READ_ONLY_PROC};
pub use shown::{Mode, Shown, look, refuse_changeable, shown};
pub use sockets::{SocketSearch, refuse_system_sockets, refuse_uncoverable};
pub use stockade_launcher::TreeKind;
