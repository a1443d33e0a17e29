//! Room for bytes on their way.

/// What is enough for most programs, which print little.
const FEW_BYTES: usize = 4 << 10;

/// A buffer that begins small and becomes large with the first read that fills it: pages that are
/// never touched cost nothing, and a start is short.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    most: usize,
}

impl Buffer {
    pub(crate) fn new(most: usize) -> Buffer {
        Buffer { bytes: Vec::new(), most }
    }

    /// Where to read to.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes.resize(FEW_BYTES.min(self.most), 0);
        }
        &mut self.bytes
    }

    /// So much was read to the room.
    pub(crate) fn was_read(&mut self, bytes: usize) {
        if bytes == self.bytes.len() {
            self.bytes.resize(self.most, 0);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_grows_once_when_a_read_fills_it_and_keeps_what_was_read() {
        let mut buffer = Buffer::new(64 << 10);
        buffer.room()[0] = 7;
        buffer.was_read(1);
        assert_eq!(buffer.room().len(), FEW_BYTES);
        buffer.was_read(FEW_BYTES);
        assert_eq!((buffer.room().len(), buffer.bytes()[0]), (64 << 10, 7));
        buffer.was_read(64 << 10);
        assert_eq!(buffer.room().len(), 64 << 10);
    }
}
