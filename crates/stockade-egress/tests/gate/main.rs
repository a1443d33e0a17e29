//! The gate with real sockets: what a program inside sees, what a server outside sees, and what is
//! recorded.

#![expect(clippy::unwrap_used, reason = "the whole crate is a test")]

mod addresses;
mod certificate;
mod changes;
mod connect;
mod hostile;
mod http2;
mod http2_answers;
mod http2_bodies;
mod http2_bounds;
mod learning;
mod limits;
mod names;
mod opened;
mod opened_bodies;
mod opened_smuggling;
mod requests;
mod secrets;
mod server;
mod smuggling;
mod socks;
mod tls;
mod websocket;
mod world;
