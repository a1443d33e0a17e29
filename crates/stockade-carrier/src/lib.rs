//! Carries the guest inside the host binaries, and speaks with it once a wall has started it.
//!
//! The build script builds `stockade-guest` as a static executable and this crate holds its bytes,
//! so one installed file is all there is. The guest is started from a sealed memfd: no path on
//! disk can be swapped for it.

mod carried;
mod check;
mod elf;
mod link;

pub use carried::{CarryError, guest_bytes, guest_file};
pub use check::{CarrierError, GuestCheck, check_guest};
pub use link::{Command, ExecutionControl, Link, LinkError, LinkSettings, Liveness};
pub use stockade_wire::Filter;
