//! Messages and framing between the host and the guest.
//!
//! A frame is a length (`u32`, little endian, at most [`MAX_FRAME_BYTES`]) and that many bytes of
//! JSON holding exactly one [`Message`]. Everything here is pure over `Read` and `Write`: the crate
//! opens no socket, and it treats every byte it reads as hostile.

mod frame;
mod handshake;
mod message;

pub use frame::{FrameError, MAX_FRAME_BYTES, read_message, write_message};
pub use handshake::{HandshakeError, answer, greet};
pub use message::{
    GuestVersion, GuestVersionError, Hello, HelloReply, Message, Nonce, PROTOCOL_VERSION,
};
