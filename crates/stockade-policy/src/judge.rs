//! Decisions: pure functions that every gate asks.

mod code;
mod network;
mod path;
