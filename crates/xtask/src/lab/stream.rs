//! Relays a stream that ends with a mark, as its bytes arrive.

use std::io::{self, Read, Write};

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With its mark: everything that was sent has been relayed.
    Marked,
    /// Without its mark: the sender ended early.
    Lost,
}

/// Relays bytes up to the mark. Holds back only bytes that may be the start of the mark.
pub(crate) fn relay(mut from: impl Read, to: &mut dyn Write, mark: &[u8]) -> io::Result<End> {
    let mut held: Vec<u8> = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let read = match from.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            other => other?,
        };
        held.extend(&chunk[..read]);
        let keep = (0..=mark.len()).rev().find(|length| held.ends_with(&mark[..*length]));
        let keep = keep.unwrap_or_default();
        let lost = read == 0;
        let passed = if lost { held.len() } else { held.len() - keep };
        to.write_all(&held[..passed])?;
        to.flush()?;
        held.drain(..passed);
        if keep == mark.len() {
            return Ok(End::Marked);
        }
        if lost {
            return Ok(End::Lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns so many bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let take = self.1.min(self.0.len());
            buffer[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    fn relayed(bytes: &[u8], at_a_time: usize) -> (End, Vec<u8>) {
        let mut to = Vec::new();
        let end = relay(Drops(bytes, at_a_time), &mut to, b"END!").unwrap();
        (end, to)
    }

    #[test]
    fn mark_ends_the_stream_however_it_is_split() {
        for at_a_time in 1..12 {
            let expected = (End::Marked, b"EN\0D EEND\xff".to_vec());
            assert_eq!(relayed(b"EN\0D EEND\xffEND!", at_a_time), expected, "{at_a_time}");
        }
    }

    #[test]
    fn stream_without_its_mark_is_lost_and_relayed_in_full() {
        assert_eq!(relayed(b"all but the END", 4), (End::Lost, b"all but the END".to_vec()));
        assert_eq!(relayed(b"", 1), (End::Lost, Vec::new()));
    }
}
