//! The agent process inside a Linux wall: one thread that runs programs for the host.
//!
//! It speaks `stockade-wire` on one stream, a socket or two descriptors, and exits when that stream
//! ends. If the wall has a network or tools, the guest accepts connections of programs, on
//! listeners of the launcher or its own, and relays them to the host. The same executable under the
//! name `stockade-tool` is the command that calls tools.

mod acceptor;
mod acceptors;
mod buffer;
mod code;
mod control;
mod execution;
mod files;
mod heartbeat;
mod keeper;
mod leaves;
mod listeners;
mod names;
mod opener;
mod prepared;
mod processes;
mod program;
mod pump;
mod reactor;
mod relay;
mod serve;
mod socket;
mod splice;
mod stdio;
mod subtree;
mod terminal;
mod tool;
mod waiting;

pub use listeners::Own;
pub use serve::{serve, serve_confined, serve_on_pair};
pub use stockade_wire::GuestExit;
pub use tool::{COMMAND, call_tool};
