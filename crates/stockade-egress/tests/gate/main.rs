//! The gate with real sockets: what a program inside sees, what a server outside sees, and what is
//! told.

#![expect(clippy::unwrap_used, reason = "the whole crate is a test")]

mod connect;
mod names;
mod server;
mod tls;
mod world;
