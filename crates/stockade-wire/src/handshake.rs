//! The first exchange on the control stream.
//!
//! ```text
//! host                                guest
//!   greet ── Hello{version, nonce} ──▶ answer
//!   check_reply ◀─ HelloReply{…, nonce} ───
//! ```
//! Each end stops at the first deviation; nothing is negotiated. The host may send further messages
//! before the reply arrives.

use crate::frame::FrameError;
use crate::message::PROTOCOL_VERSION;
use crate::message::{GuestMessage, GuestVersion, Hello, HelloReply, HostMessage, Nonce};

/// Why a handshake did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other end uses another version.
    #[error("the other end speaks protocol version {theirs}, this end speaks {ours}")]
    Version {
        /// This end's version.
        ours: u32,
        /// The other end's version.
        theirs: u32,
    },
    /// The nonce of the reply does not match the hello.
    #[error("the reply carries another nonce than the question")]
    Nonce,
    /// A message that is not part of the handshake.
    #[error("expected {expected} in the handshake, got another message")]
    OutOfPlace {
        /// The name of the expected message.
        expected: &'static str,
    },
}

/// Returns the host's hello.
pub fn greet(nonce: Nonce) -> HostMessage {
    HostMessage::Hello(Hello { version: PROTOCOL_VERSION, nonce })
}

/// Checks the host's first message and returns the guest's reply.
pub fn answer(
    first: &HostMessage,
    guest_version: GuestVersion,
    pid: u32,
) -> Result<GuestMessage, HandshakeError> {
    let HostMessage::Hello(hello) = first else {
        return Err(HandshakeError::OutOfPlace { expected: "hello" });
    };
    check_version(hello.version)?;
    let (version, nonce) = (PROTOCOL_VERSION, hello.nonce);
    Ok(GuestMessage::HelloReply(HelloReply { version, nonce, guest_version, pid }))
}

/// Checks the guest's first message against the hello that the host sent.
pub fn check_reply(first: GuestMessage, nonce: Nonce) -> Result<HelloReply, HandshakeError> {
    let GuestMessage::HelloReply(reply) = first else {
        return Err(HandshakeError::OutOfPlace { expected: "hello_reply" });
    };
    check_version(reply.version)?;
    if reply.nonce != nonce {
        return Err(HandshakeError::Nonce);
    }
    Ok(reply)
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
