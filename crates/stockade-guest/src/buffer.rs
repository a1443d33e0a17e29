//! A buffer that grows on demand.

/// Enough for most programs, which print little.
const FEW_BYTES: usize = 4 << 10;

/// A buffer that starts small and becomes large when a read fills it. Untouched pages cost no
/// memory, which keeps a start short.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    most: usize,
}

impl Buffer {
    pub(crate) fn new(most: usize) -> Buffer {
        Buffer { bytes: Vec::new(), most }
    }

    /// The free space to read into.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes.resize(FEW_BYTES.min(self.most), 0);
        }
        &mut self.bytes
    }

    /// Records that a read filled this many bytes of the free space.
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
    fn full_buffer_grows_once_and_keeps_its_bytes() {
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
