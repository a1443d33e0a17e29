//! The agent process inside a Linux wall.
//!
//! For now it answers one handshake on the stream it is given and ends when that stream ends.

mod conversation;

pub use conversation::{GuestExit, converse};
