//! The reduced wall: Landlock, seccomp and rlimits, for hosts that forbid namespaces.
//!
//! ```text
//! policy ─┐
//! machine ┼─ plan (pure) ──▶ steps ──▶ launcher ──▶ the same sandbox type as the native wall
//! files ──┘
//! ```
//! This wall refuses what it cannot enforce. Only a policy that accepts it by name uses it.

mod abilities;
mod files;
mod plan;
mod provider;
mod scratch;
mod usage;

pub(crate) use abilities::abilities as abilities_of;
pub use provider::ReducedProvider;
pub(crate) use scratch::ScratchDirectory;
