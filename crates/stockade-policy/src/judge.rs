//! Decisions: pure functions that every gate calls.

mod code;
mod network;
mod path;
