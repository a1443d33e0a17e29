//! The reduced wall: Landlock, seccomp and rlimits, for hosts that forbid namespaces.
//!
//! ```text
//! policy ─┐
//! machine ┼─ plan (pure) ──▶ steps ──▶ launcher ──▶ the same sandbox as of the native wall
//! files ──┘
//! ```
//! What this wall cannot hold it refuses. It is used only by a policy that accepts it by name.

mod abilities;
mod files;
mod plan;
mod provider;
mod scratch;
mod usage;

pub use provider::ReducedProvider;
pub(crate) use scratch::ScratchDirectory;
