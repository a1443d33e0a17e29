//! Checkpoints of sandboxes: a content-addressed store of pack files, the differences between
//! checkpoints, and how changes reach a directory of the host.
//!
//! ```text
//! tree of a sandbox ──▶ Builder: blobs by their hash ──▶ packs/HEX.pack ──▶ checkpoints/SESSION/NAME
//!                                                         Contents ◀──────────────┘
//!                            tree for a sandbox ◀── Contents ──▶ View ──▶ Change ──▶ apply
//! ```
//! A checkpoint exists when its record does. That is renamed to its name after everything it needs is
//! on the disk, so a crash leaves it there completely or not at all. Every byte of a tree came from a
//! sandbox and is hostile: decoding bounds it, and reading checks the hash of each blob.

mod applied;
mod apply;
mod base;
mod builder;
mod change;
mod checkpoint;
mod collect;
mod contents;
mod delta;
mod error;
mod flags;
mod hash;
mod pack;
mod parcel;
mod passing;
mod patch;
mod store;
mod view;

pub use apply::{Applied, ApplyRequest, Proposal, Refused, Verdict, apply};
pub use base::HostBase;
pub use builder::{Builder, Limits, Summary};
pub use change::{Change, ChangeKind, changes};
pub use checkpoint::{Checkpoint, Reference, StoredPlace};
pub use collect::{Collected, Usage, Verified};
pub use contents::Contents;
pub use delta::Delta;
pub use error::{StoreError, stream_error};
pub use flags::flag;
pub use hash::Hash;
pub use parcel::{export, import};
pub use passing::Passing;
pub use patch::{Patch, patch};
pub use store::{Store, store_directory};
pub use view::{Content, EntryKind, TreeEntry, View};
