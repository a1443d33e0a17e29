//! The guest's exit codes.

use std::process::ExitCode;

use crate::frame::FrameError;
use crate::handshake::HandshakeError;

/// How the guest ended. Its exit code is the only information outside the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuestExit {
    /// The host closed the stream after a valid handshake.
    Done = 0,
    /// Reading or writing the stream failed.
    Stream = 70,
    /// The stream ended before a complete hello arrived.
    Closed = 71,
    /// The host sent bytes that are not of this protocol.
    Malformed = 72,
    /// The host uses another protocol version.
    Version = 73,
    /// A message arrived out of order.
    OutOfPlace = 74,
    /// The guest could not prepare its own process.
    Unprepared = 75,
    /// The host stopped sending beats.
    Silent = 76,
}

impl GuestExit {
    /// The meaning of an exit code, if the guest uses that code.
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
    fn guest_exit_codes_round_trip_and_other_codes_are_rejected() {
        assert_eq!(GuestExit::from_code(0), Some(GuestExit::Done));
        assert_eq!(GuestExit::from_code(74), Some(GuestExit::OutOfPlace));
        assert_eq!(GuestExit::from_code(1), None);
    }
}
