//! The first and the last part of a stream, which are what its reader needs.

use std::collections::VecDeque;

/// Keeps at most a number of bytes of a stream, however long it is.
pub(super) struct Kept {
    most: usize,
    first: Vec<u8>,
    last: VecDeque<u8>,
    bytes: u64,
}

impl Kept {
    pub(super) fn new(most: usize) -> Kept {
        Kept { most, first: Vec::new(), last: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let half = self.most.div_ceil(2);
        let (first, rest) = bytes.split_at((half - self.first.len()).min(bytes.len()));
        self.first.extend_from_slice(first);
        self.last.extend(rest);
        let over = self.last.len().saturating_sub(self.most - half);
        self.last.drain(..over);
    }

    /// The text, with a line in place of what is left out, and how many bytes that is.
    pub(super) fn text(self) -> (String, u64) {
        let Kept { first, last, bytes, .. } = self;
        let dropped = bytes - (first.len() + last.len()) as u64;
        let last = Vec::from(last);
        if dropped == 0 {
            return (String::from_utf8_lossy(&[first, last].concat()).into_owned(), 0);
        }
        let (first, last) = (String::from_utf8_lossy(&first), String::from_utf8_lossy(&last));
        (format!("{first}\n[{dropped} bytes left out]\n{last}"), dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(most: usize, pieces: &[&str]) -> (String, u64) {
        let mut kept = Kept::new(most);
        pieces.iter().for_each(|piece| kept.push(piece.as_bytes()));
        kept.text()
    }

    #[test]
    fn short_stream_is_kept_whole() {
        assert_eq!(kept(6, &["ab", "cd", "ef"]), ("abcdef".to_owned(), 0));
        assert_eq!(kept(0, &[]), (String::new(), 0));
    }

    #[test]
    fn long_stream_keeps_its_first_and_last_bytes() {
        let expected = ("ab\n[4 bytes left out]\ngh".to_owned(), 4);
        assert_eq!(kept(4, &["abcdefgh"]), expected);
        assert_eq!(kept(4, &["a", "b", "c", "d", "e", "f", "g", "h"]), expected);
        assert_eq!(kept(0, &["abc"]), ("\n[3 bytes left out]\n".to_owned(), 3));
    }

    #[test]
    fn memory_is_bounded() {
        let mut kept = Kept::new(1000);
        for _ in 0..10_000 {
            kept.push(&[b'x'; 4096]);
        }
        assert!(kept.first.len() + kept.last.len() == 1000 && kept.last.capacity() < 20_000);
    }
}
