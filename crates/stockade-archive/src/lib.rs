//! Trees of files as tar archives, for the host and for the guest.
//!
//! An archive is hostile on both sides. [`unpack`] resolves every name one component at a time below
//! one open directory, follows no link, creates only files, directories and links, and bounds their
//! number and size. [`pack`] follows no link either. [`tree`] has the same for checkpoints, with
//! everything that an archive does not keep.

mod beneath;
mod entries;
mod error;
mod pack;
mod pax;
pub mod tree;
mod unpack;

pub use beneath::{components, stays};
pub use entries::{ArchiveEntry, Attributes, Entries, EntryKind};
pub use error::{ArchiveError, Refusal};
pub use pack::{Packed, pack, pack_without};
pub use unpack::{Limits, Links, Rename, Unpacked, fill, unpack};
