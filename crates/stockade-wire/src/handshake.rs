//! The first exchange on every stream.
//!
//! ```text
//! host                                guest
//!   greet ── Hello{version, nonce} ──▶ answer
//!         ◀─ HelloReply{…, nonce} ───
//! ```
//! Either end stops at the first thing that is not as drawn; nothing is negotiated.

use std::io::{Read, Write};

use crate::frame::{FrameError, read_message, write_message};
use crate::message::{GuestVersion, Hello, HelloReply, Message, Nonce, PROTOCOL_VERSION};

/// Why a handshake did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other end speaks another version.
    #[error("the other end speaks protocol version {theirs}, this end speaks {ours}")]
    Version {
        /// This end's version.
        ours: u32,
        /// The version the other end named.
        theirs: u32,
    },
    /// The reply belongs to another question.
    #[error("the reply carries another nonce than the question")]
    Nonce,
    /// A message that has no place in a handshake.
    #[error("expected {expected} in the handshake, got another message")]
    OutOfPlace {
        /// The name of the message that was due.
        expected: &'static str,
    },
}

/// The host's side: says hello and returns the reply once it has been checked.
pub fn greet(stream: &mut (impl Read + Write), nonce: Nonce) -> Result<HelloReply, HandshakeError> {
    write_message(stream, &Message::Hello(Hello { version: PROTOCOL_VERSION, nonce }))?;
    let Message::HelloReply(reply) = read_message(stream)? else {
        return Err(HandshakeError::OutOfPlace { expected: "hello_reply" });
    };
    check_version(reply.version)?;
    if reply.nonce != nonce {
        return Err(HandshakeError::Nonce);
    }
    Ok(reply)
}

/// The guest's side: waits for the hello, checks it and replies.
pub fn answer(
    stream: &mut (impl Read + Write),
    guest_version: GuestVersion,
    pid: u32,
) -> Result<(), HandshakeError> {
    let Message::Hello(hello) = read_message(stream)? else {
        return Err(HandshakeError::OutOfPlace { expected: "hello" });
    };
    check_version(hello.version)?;
    let reply = HelloReply { version: PROTOCOL_VERSION, nonce: hello.nonce, guest_version, pid };
    Ok(write_message(stream, &Message::HelloReply(reply))?)
}

fn check_version(theirs: u32) -> Result<(), HandshakeError> {
    match theirs {
        PROTOCOL_VERSION => Ok(()),
        _ => Err(HandshakeError::Version { ours: PROTOCOL_VERSION, theirs }),
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
