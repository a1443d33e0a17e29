//! Whole trees as a stream of records: what a checkpoint holds of the writable places of a sandbox.
//!
//! ```text
//! Place ── its entries, in the order of their names ── Place ── … ── End
//! Enter ── the entries of the directory ── Leave
//! File  ── its content, in a form that the user of the records chooses
//! ```
//! Unlike a tar archive, a tree has times in nanoseconds, extended attributes, holes, FIFOs, and the
//! deletions of an overlay. Names are single components, so no record can name a place outside its
//! directory. Every record comes from a sandbox or a file and is hostile: [`Order`] checks the
//! sequence, and decoding bounds every part.

mod capture;
mod content;
mod deliver;
mod fill;
mod open;
mod order;
mod record;

pub use capture::{CapturedPlace, Counted, HashFunction, capture, digest};
pub use content::{
    Extent, HASH_BYTES, MAX_CHUNK_BYTES, MAX_EXTENT_BYTES, end_content, is_same_chunk, read_extent,
    write_chunk, write_extent,
};
pub use deliver::{LeftOut, Target, Undelivered, deliver};
pub use fill::{Filled, fill_tree};
pub use order::Order;
pub use record::{FileHead, MAX_DEPTH, MAX_NAME_BYTES, Metadata, Node, Record, Time};
