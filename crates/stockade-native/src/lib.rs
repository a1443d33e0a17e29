//! Walls on the host's own kernel: the native one of namespaces, cgroups, Landlock and seccomp, and
//! the reduced one for hosts that forbid namespaces.
//!
//! ```text
//! policy ─┐
//! machine ┼─ plan (pure) ──▶ steps ──▶ launcher ──▶ sandbox ──▶ observed and ended from outside
//! cgroups ┘
//! ```

mod abilities;
mod commands;
mod error;
mod execution;
mod facts_cache;
mod filters;
mod host;
mod host_files;
mod id_range;
mod knobs;
mod leaves;
mod machine;
mod observe;
mod obstacles;
mod plan;
pub mod proc_files;
mod proc_view;
mod process_tree;
mod programs;
mod provider;
mod reduced;
mod reference;
mod sandbox;
mod start;
mod sub_ids;
mod tools;
mod trial;
mod try_out;
#[cfg(feature = "weaken")]
mod weaken;

pub use error::StartError;
pub use host::{CgroupLook, HostLook, InterpreterLook};
pub use id_range::{IdRange, IdRangeError};
pub use knobs::Knobs;
pub use machine::Landlock;
pub use provider::NativeProvider;
pub use reduced::ReducedProvider;
pub use reference::reference_abilities;
pub use start::HostProcess;
pub use stockade_interpreters::{OWN_DIRECTORIES, Surroundings};
pub use sub_ids::SubIds;
