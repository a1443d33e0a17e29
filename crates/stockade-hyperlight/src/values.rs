//! Values as the micro-VM's runtime passes them: the numbers in little-endian order, texts and
//! lists after their length, options and results after a byte, variants and enums after four.
//!
//! What is read here comes from a hostile machine: every length is checked against what is there.

/// A value that is not what the function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads values from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (part, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (part, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*part)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        self.take(count).map(<[u8]>::to_vec)
    }

    pub(crate) fn string(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// A list, whose elements have at least one byte each.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        (0..count).map(|_| element(self)).collect()
    }

    /// Fails if something is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Writes values one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer::default()
    }

    pub(crate) fn u8(mut self, value: u8) -> Writer {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(mut self, value: u16) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// The length of a list or a text.
    pub(crate) fn length(self, count: usize) -> Writer {
        self.u32(u32::try_from(count).expect("a frame is smaller than 4 GiB"))
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Writer {
        self = self.length(bytes.len());
        self.0.extend(bytes);
        self
    }

    pub(crate) fn string(self, text: &str) -> Writer {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = Writer::new().u8(1).u16(2).u32(3).u64(4).string("five").bytes(b"6").finish();
        assert_eq!(&bytes[1..3], [2, 0]);
        let bytes = Writer::new().u8(1).u32(3).u64(4).string("five").bytes(b"6").finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u8(), reader.u32()), (Ok(1), Ok(3)));
        assert_eq!((reader.u64(), reader.string()), (Ok(4), Ok("five".to_owned())));
        assert_eq!((reader.bytes(), reader.end()), (Ok(b"6".to_vec()), Ok(())));
    }

    #[test]
    fn length_beyond_what_is_there_is_refused_before_memory_is_reserved() {
        let bytes = u32::MAX.to_le_bytes();
        assert_eq!(Reader::new(&bytes).bytes(), Err(Malformed));
        assert_eq!(Reader::new(&bytes).list(Reader::u8), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            let _ = reader.list(|it| Ok((it.string()?, it.u64()?)));
            let _ = (reader.bytes(), reader.end());
        }
    }
}
