//! Pipes beside streams, through which much goes to a program.

/// What a pipe is for: its first bytes. Its reading end comes to the guest as a descriptor beside
/// the bytes of the link, before the stream can end; all that follows in it belongs to the stream,
/// and is all there when the pipe has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The stream, one that the guest has opened.
    pub stream: u32,
    /// How many bytes of the stream itself come before those of the pipe.
    pub after: u64,
}

impl Lane {
    /// How many bytes say what a pipe is for.
    pub const BYTES: usize = 12;

    /// As it is written.
    pub fn to_bytes(self) -> [u8; Lane::BYTES] {
        let mut bytes = [0; Lane::BYTES];
        bytes[..4].copy_from_slice(&self.stream.to_le_bytes());
        bytes[4..].copy_from_slice(&self.after.to_le_bytes());
        bytes
    }

    /// As it is read; every twelve bytes are one.
    pub fn from_bytes(bytes: [u8; Lane::BYTES]) -> Lane {
        let [a, b, c, d, after @ ..] = bytes;
        Lane { stream: u32::from_le_bytes([a, b, c, d]), after: u64::from_le_bytes(after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_is_read_as_it_was_written() {
        let lane = Lane { stream: 0x0102_0304, after: 0x0506_0708_090a_0b0c };
        assert_eq!(lane.to_bytes(), [4, 3, 2, 1, 12, 11, 10, 9, 8, 7, 6, 5]);
        assert_eq!(Lane::from_bytes(lane.to_bytes()), lane);
    }
}
