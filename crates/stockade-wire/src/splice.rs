//! Splice pipes carry the rest of a fast download to a program.

/// The first bytes of a splice pipe; the rest of the pipe, to its end, is the rest of the stream.
/// The guest receives the reading end by SCM_RIGHTS before the stream can end, and only the socket
/// transport of a wall on this machine uses splice pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpliceHeader {
    /// The stream, which the guest has opened.
    pub stream: u32,
    /// How many bytes of the stream itself precede those of the pipe.
    pub after: u64,
}

impl SpliceHeader {
    /// The length of the header.
    pub const BYTES: usize = 12;

    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; SpliceHeader::BYTES] {
        let mut bytes = [0; SpliceHeader::BYTES];
        bytes[..4].copy_from_slice(&self.stream.to_le_bytes());
        bytes[4..].copy_from_slice(&self.after.to_le_bytes());
        bytes
    }

    /// Decodes the header; any twelve bytes are valid.
    pub fn from_bytes(bytes: [u8; SpliceHeader::BYTES]) -> SpliceHeader {
        let [a, b, c, d, after @ ..] = bytes;
        SpliceHeader { stream: u32::from_le_bytes([a, b, c, d]), after: u64::from_le_bytes(after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splice_header_is_read_as_it_was_written() {
        let header = SpliceHeader { stream: 0x0102_0304, after: 0x0506_0708_090a_0b0c };
        assert_eq!(header.to_bytes(), [4, 3, 2, 1, 12, 11, 10, 9, 8, 7, 6, 5]);
        assert_eq!(SpliceHeader::from_bytes(header.to_bytes()), header);
    }
}
