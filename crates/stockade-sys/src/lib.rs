//! Safe wrappers over the Linux calls that the standard library does not offer.
//!
//! This is the only crate of the workspace with room for `unsafe`. What rustix covers is taken from
//! there; the rest has one module per subject, each with the reason it needs `unsafe`.

mod child;
mod memfd;
mod random;
mod seccomp;

pub use child::ends_within;
pub use memfd::{SealedFileError, sealed_file};
pub use random::random_bytes;
pub use seccomp::{Instruction, install_filter, set_no_new_privs};
