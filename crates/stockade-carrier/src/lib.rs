//! Carries the guest inside the host binaries, and communicates with it once a wall has started it.
//!
//! The build script builds `stockade-guest` as a static executable and this crate embeds its bytes,
//! so an installation is one file. A wall starts the guest from a sealed memfd, which no other
//! process can replace.

mod carried;
mod check;
mod elf;
mod follow;
mod link;
mod words;

pub use carried::{CarryError, guest_bytes, guest_file};
pub use check::{CarrierError, GuestCheck, check_guest};
pub use follow::{CONFIRMED, End, follow};
pub use link::{ExecutionControl, Link, LinkError, LinkSettings, Liveness};
pub use stockade_wire::Filter;
pub use words::{direct_literals, guest_words};
