//! The tool broker with real programs, servers and sockets: what a program inside sees, what tools
//! receive, and what is recorded.

#![expect(clippy::unwrap_used, reason = "the whole crate is a test")]

mod calls;
mod cancel;
mod certificate;
mod commands;
mod glue;
mod hostile;
mod http;
mod limits;
mod listings;
mod many;
mod mcp;
mod world;
