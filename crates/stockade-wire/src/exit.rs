//! What the guest's exit code means.

use std::process::ExitCode;

use crate::frame::FrameError;
use crate::handshake::HandshakeError;

/// How the guest ended; its exit code is the only thing it says beyond the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuestExit {
    /// The host ended the stream after a good handshake.
    Done = 0,
    /// The stream could not be read or written.
    Stream = 70,
    /// The stream ended before a whole hello had come.
    Closed = 71,
    /// What came was not of this protocol.
    Malformed = 72,
    /// The host speaks another version.
    Version = 73,
    /// A message came that has no place there.
    OutOfPlace = 74,
    /// The guest could not prepare its own process.
    Unprepared = 75,
    /// The host's beats stopped.
    Silent = 76,
}

impl GuestExit {
    /// The meaning of an exit code of the guest, if it is one of ours.
    pub fn from_code(code: i32) -> Option<GuestExit> {
        use GuestExit::{Closed, Done, Malformed, OutOfPlace, Silent, Stream, Unprepared, Version};
        [Done, Stream, Closed, Malformed, Version, OutOfPlace, Unprepared, Silent]
            .into_iter()
            .find(|exit| i32::from(*exit as u8) == code)
    }
}

impl From<GuestExit> for ExitCode {
    fn from(exit: GuestExit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<&FrameError> for GuestExit {
    fn from(error: &FrameError) -> GuestExit {
        match error {
            FrameError::Closed | FrameError::Truncated { .. } => GuestExit::Closed,
            FrameError::Read { .. } | FrameError::Write { .. } => GuestExit::Stream,
            FrameError::TooLong { .. } | FrameError::Malformed { .. } => GuestExit::Malformed,
        }
    }
}

impl From<&HandshakeError> for GuestExit {
    fn from(error: &HandshakeError) -> GuestExit {
        match error {
            HandshakeError::Frame(error) => GuestExit::from(error),
            HandshakeError::Version { .. } => GuestExit::Version,
            HandshakeError::Nonce => GuestExit::Malformed,
            HandshakeError::OutOfPlace { .. } => GuestExit::OutOfPlace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_read_back_and_foreign_ones_are_not() {
        assert_eq!(GuestExit::from_code(0), Some(GuestExit::Done));
        assert_eq!(GuestExit::from_code(74), Some(GuestExit::OutOfPlace));
        assert_eq!(GuestExit::from_code(1), None);
    }
}
