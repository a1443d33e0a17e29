//! Trees of files as tar archives, for the host and for the guest.
//!
//! An archive is hostile on both sides. [`unpack`] resolves every name one component at a time below
//! one open directory, follows no link, creates only files, directories and links, and bounds their
//! number and size. [`pack`] follows no link either.

mod beneath;
mod entries;
mod error;
mod pack;
mod pax;
mod unpack;

pub use beneath::components;
pub use entries::{Attributes, Entries, Entry, EntryKind};
pub use error::{ArchiveError, Refusal};
pub use pack::{Packed, pack};
pub use unpack::{Limits, Links, Rename, Unpacked, fill, unpack};
