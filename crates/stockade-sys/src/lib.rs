//! Safe wrappers over the Linux calls that the standard library does not offer.
//!
//! This is the only crate of the workspace with room for `unsafe`; so far rustix covers everything
//! and there is none.

mod child;
mod memfd;
mod random;

pub use child::ends_within;
pub use memfd::{SealedFileError, sealed_file};
pub use random::random_bytes;
