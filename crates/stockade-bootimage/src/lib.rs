//! Images of virtual machines: a kernel, its modules and a read-only root.
//!
//! ```text
//! packages of a distribution ─┬─ kernel, modules ─▶ kernel, modules.cpio ─┐
//! its packages, or a tree ────┴─ root ─▶ root.squashfs ───────────────────┴─▶ kept by name, with
//!                                                                             the hash of each
//! ```
//! Everything is made by an ordinary user: packages are unpacked without their scripts, and root owns
//! all files because the tool that writes the file system says so.

mod build;
mod cpio;
mod error;
mod modules;
mod packages;
mod program;
mod stamp;
mod store;
mod unpack;

pub use build::{BuildRequest, Source, build};
pub use cpio::Cpio;
pub use error::BootImageError;
pub use modules::{ModuleFile, load_order};
pub use packages::{kernel_version, resolved};
pub use stamp::{Stamp, hash_of, hash_of_bytes, hash_open};
pub use store::{BootImage, BootStore, Kept, Manifest, machines_directory};
pub use unpack::unpack;
