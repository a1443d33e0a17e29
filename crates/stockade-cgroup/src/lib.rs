//! Control groups: the kernel enforces a sandbox's limits, counts its use, and kills all of it.
//!
//! ```text
//!             detect                create                   entry
//!   host ──────────────▶ Layout ──────────────▶ Group ──────────────▶ processes inside
//!                          │              limits are set;               │
//!                          │              no process inside             │ kill_all
//!                          │                                            ▼
//!                          └──────── sweep ◀──── owner died         empty ────▶ removed
//! ```
//!
//! A group is one directory per hierarchy, below a parent that this process may use, with the same
//! name in each. `docs/decisions/0010-cgroups.md` explains its behaviour on each kind of host.

mod attempt;
mod census;
mod controller;
mod disks;
mod entry;
mod error;
mod facts;
mod files;
mod group;
mod hand_down;
mod kill;
mod layout;
mod limits;
mod name;
mod owner;
mod refusal;
mod remove;
mod survey;
mod sweep;

pub use controller::{Controller, Version};
pub use entry::{GroupEntry, Tasks, UnifiedEntry};
pub use error::CgroupError;
pub use facts::MemoryEvents;
pub use group::{Group, LeafParent};
pub use layout::{Hierarchy, Layout};
pub use limits::{Limits, OWN_TASKS};
pub use name::GroupName;
pub use owner::{Life, Owner, Realm};
pub use remove::Removal;
pub use sweep::{SweepReport, sweep, sweep_parents};

#[cfg(test)]
mod tests;
