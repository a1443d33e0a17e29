//! The desk with real programs, servers and sockets: what a program inside sees, what tools see,
//! and what is told.

#![expect(clippy::unwrap_used, reason = "the whole crate is a test")]

mod calls;
mod cancel;
mod certificate;
mod commands;
mod door;
mod hostile;
mod http;
mod limits;
mod listings;
mod many;
mod mcp;
mod world;
