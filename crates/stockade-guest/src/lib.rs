//! The agent process inside a Linux wall: one thread that runs programs for the host.
//!
//! It uses the protocol `stockade-wire` on one stream, a socket or two descriptors, and exits when
//! that stream ends. If the wall has a network or tools, the guest accepts connections of programs,
//! on listeners of the launcher or its own, and relays them to the host. The same executable under
//! the name `stockade-tool` is the command that calls tools.

mod acceptor;
mod acceptors;
mod buffer;
mod callers;
mod code;
mod control;
mod denied;
mod execution;
mod files;
mod heartbeat;
mod keeper;
mod leaves;
mod listeners;
mod machine;
mod names;
mod opener;
mod ports;
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

pub use denied::report_denied;
pub use listeners::Own;
pub use machine::{MachineRoot, serve_machine};
pub use serve::{serve, serve_confined, serve_on_pair};
pub use stockade_wire::GuestExit;
pub use tool::{COMMAND, call_tool};
