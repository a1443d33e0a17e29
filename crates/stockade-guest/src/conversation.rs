//! The guest's side of the stream.
//!
//! ```text
//! waiting ── hello ──▶ answered ── end of stream ──▶ done (0)
//!    │                    │
//!    └─ anything else ────┴─ any byte ──▶ failed (the code says why)
//! ```

use std::io::{self, Read, Write};
use std::process::ExitCode;

use stockade_wire::{FrameError, GuestVersion, HandshakeError, answer};

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
    /// What came was not a hello of this protocol.
    Malformed = 72,
    /// The host speaks another version.
    Version = 73,
    /// Bytes came after the handshake.
    UnexpectedBytes = 74,
}

impl GuestExit {
    /// The meaning of an exit code of the guest, if it is one of ours.
    pub fn from_code(code: i32) -> Option<GuestExit> {
        use GuestExit::{Closed, Done, Malformed, Stream, UnexpectedBytes, Version};
        [Done, Stream, Closed, Malformed, Version, UnexpectedBytes]
            .into_iter()
            .find(|exit| i32::from(*exit as u8) == code)
    }
}

impl From<GuestExit> for ExitCode {
    fn from(exit: GuestExit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<HandshakeError> for GuestExit {
    fn from(error: HandshakeError) -> GuestExit {
        match error {
            HandshakeError::Frame(FrameError::Closed | FrameError::Truncated { .. }) => {
                GuestExit::Closed
            }
            HandshakeError::Frame(FrameError::Read { .. } | FrameError::Write { .. }) => {
                GuestExit::Stream
            }
            HandshakeError::Version { .. } => GuestExit::Version,
            // The enum is open; a refusal of any other kind is about what was said.
            _ => GuestExit::Malformed,
        }
    }
}

/// Answers one handshake, then waits for the end of the stream.
pub fn converse(stream: &mut (impl Read + Write), pid: u32) -> GuestExit {
    let version = GuestVersion::try_from(env!("CARGO_PKG_VERSION").to_owned())
        .expect("the release number of this crate is a guest version");
    if let Err(error) = answer(stream, version, pid) {
        return GuestExit::from(error);
    }
    match read_one(stream) {
        Ok(0) => GuestExit::Done,
        Ok(_) => GuestExit::UnexpectedBytes,
        Err(_) => GuestExit::Stream,
    }
}

fn read_one(stream: &mut impl Read) -> io::Result<usize> {
    loop {
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use stockade_wire::{Hello, Message, Nonce, greet, write_message};

    use super::*;

    /// What the guest makes of a host that says `bytes` and then ends its side.
    fn exit_after(bytes: &[u8]) -> GuestExit {
        let (mut host, mut guest) = UnixStream::pair().unwrap();
        host.write_all(bytes).unwrap();
        host.shutdown(Shutdown::Write).unwrap();
        converse(&mut guest, 1)
    }

    fn hello(version: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let hello = Hello { version, nonce: Nonce([1; 16]) };
        write_message(&mut bytes, &Message::Hello(hello)).unwrap();
        bytes
    }

    #[test]
    fn good_handshake_and_end_of_stream_is_done() {
        let (mut host, mut guest) = UnixStream::pair().unwrap();
        let inside = thread::spawn(move || converse(&mut guest, 7));
        let reply = greet(&mut host, Nonce([1; 16])).unwrap();
        assert_eq!(reply.pid, 7);
        assert_eq!(reply.guest_version.as_str(), env!("CARGO_PKG_VERSION"));
        drop(host);
        assert_eq!(inside.join().unwrap(), GuestExit::Done);
    }

    #[test]
    fn each_bad_handshake_has_its_own_exit() {
        assert_eq!(exit_after(b""), GuestExit::Closed);
        assert_eq!(exit_after(b"\x40\0\0\0{"), GuestExit::Closed);
        assert_eq!(exit_after(b"GET / HTTP/1.1\r\n\r\n"), GuestExit::Malformed);
        assert_eq!(exit_after(&hello(9)), GuestExit::Version);
        assert_eq!(exit_after(&[hello(1), b"more".to_vec()].concat()), GuestExit::UnexpectedBytes);
    }

    #[test]
    fn exit_codes_are_read_back_and_foreign_ones_are_not() {
        assert_eq!(GuestExit::from_code(0), Some(GuestExit::Done));
        assert_eq!(GuestExit::from_code(74), Some(GuestExit::UnexpectedBytes));
        assert_eq!(GuestExit::from_code(1), None);
    }
}
