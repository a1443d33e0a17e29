//! The agent process inside a Linux wall: one thread that runs programs for the host.
//!
//! It speaks `stockade-wire` on one stream, a socket or two descriptors, and its process ends when
//! that stream does. Where the wall has a network, or tools can be called, connections of programs
//! arrive at it, at listeners of the launcher or of its own, and go to the host. Under another name the same executable is the command that calls tools.

mod buffer;
mod code;
mod control;
mod door;
mod execution;
mod heartbeat;
mod listeners;
mod names;
mod opener;
mod processes;
mod program;
mod pump;
mod reactor;
mod relay;
mod serve;
mod socket;
mod splice;
mod tool;
mod waiting;
mod way_out;

pub use listeners::Own;
pub use serve::{serve, serve_confined, serve_on_pair};
pub use stockade_wire::GuestExit;
pub use tool::{COMMAND, call_tool};
