//! The agent process inside a Linux wall: one thread that runs programs for the host.
//!
//! It speaks `stockade-wire` on one stream, and its process ends when that stream does.

mod code;
mod control;
mod execution;
mod processes;
mod program;
mod pump;
mod reactor;
mod serve;
mod socket;
mod waiting;

pub use serve::{serve, serve_confined};
pub use stockade_wire::GuestExit;
