//! Lines from somebody who is not trusted: nobody keeps more of one than was said.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How much of each end of a line that is dropped is kept, to see whose it was.
const KEPT: usize = 128;

/// Reads lines. Every method can be dropped while it waits and called again: nothing is lost.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    held: Vec<u8>,
    /// Bytes of the line that is being dropped, and the last of them.
    dropped: u64,
    tail: Vec<u8>,
}

/// The two ends of a line that was dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A whole line without its end.
    Line(Vec<u8>),
    /// A line has more bytes than asked for; they are kept for another try.
    More,
    /// There is no further line. What came without a line end is no line.
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Lines<R> {
        let reader = BufReader::with_capacity(16 << 10, reader);
        Lines { reader, held: Vec::new(), dropped: 0, tail: Vec::new() }
    }

    /// Waits for the next line of at most `most` bytes.
    pub(crate) async fn next(&mut self, most: usize) -> io::Result<Read> {
        loop {
            if self.held.len() > most {
                return Ok(Read::More);
            }
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(Read::End);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            // One byte more than may be tells that the line is longer.
            let room = most + 1 - self.held.len();
            let taken = end.unwrap_or(available.len()).min(room);
            self.held.extend_from_slice(&available[..taken]);
            if end == Some(taken) && self.held.len() <= most {
                self.reader.consume(taken + 1);
                return Ok(Read::Line(std::mem::take(&mut self.held)));
            }
            self.reader.consume(taken);
        }
    }

    /// Whether a line was begun of which the end did not come.
    pub(crate) fn is_in_line(&self) -> bool {
        !self.held.is_empty()
    }

    /// Resolves when nothing is left to read and nothing more comes. Never, where something is
    /// left to read: what comes after it is not known.
    pub(crate) async fn ended(&mut self) {
        let is_read = self.reader.buffer().is_empty();
        if is_read && matches!(self.reader.fill_buf().await, Ok([]) | Err(_)) {
            return;
        }
        std::future::pending().await
    }

    /// Drops the line that was begun, up to its end, and gives its ends. `None` where it does not
    /// end within `most` bytes, or at all.
    pub(crate) async fn skip(&mut self, most: u64) -> io::Result<Option<Ends>> {
        if self.held.len() > KEPT {
            let rest = self.held.split_off(KEPT);
            self.drop_part(&rest);
            self.held.shrink_to_fit();
        }
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() || self.dropped > most {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = available[..end.unwrap_or(available.len())].to_vec();
            self.reader.consume(part.len() + usize::from(end.is_some()));
            self.drop_part(&part);
            if end.is_some() {
                self.dropped = 0;
                let (head, tail) = (std::mem::take(&mut self.held), std::mem::take(&mut self.tail));
                return Ok(Some(Ends { head, tail }));
            }
        }
    }

    /// Counts a part of a line and keeps its last bytes.
    fn drop_part(&mut self, part: &[u8]) {
        self.dropped = self.dropped.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        self.tail.extend_from_slice(&part[part.len().saturating_sub(KEPT)..]);
        self.tail.drain(..self.tail.len().saturating_sub(KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_those_too_long_can_be_waited_for_or_dropped() {
        let text = format!("ab\n\n{}\ncd\n{}zz\nlast\nhalf", "x".repeat(100), "y".repeat(40_000));
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next(10).await.unwrap(), Read::Line(b"ab".to_vec()));
        assert_eq!(lines.next(10).await.unwrap(), Read::Line(Vec::new()));
        assert_eq!(lines.next(10).await.unwrap(), Read::More);
        assert_eq!(lines.next(99).await.unwrap(), Read::More);
        assert_eq!(lines.next(100).await.unwrap(), Read::Line(vec![b'x'; 100]));
        assert_eq!(lines.next(2).await.unwrap(), Read::Line(b"cd".to_vec()));
        assert_eq!(lines.next(300).await.unwrap(), Read::More);
        let ends = Ends { head: vec![b'y'; KEPT], tail: [&[b'y'; KEPT - 2][..], b"zz"].concat() };
        assert_eq!(lines.skip(1 << 20).await.unwrap(), Some(ends));
        assert_eq!(lines.next(10).await.unwrap(), Read::Line(b"last".to_vec()));
        assert_eq!(lines.next(10).await.unwrap(), Read::End);
    }

    #[tokio::test]
    async fn a_line_without_end_is_given_up() {
        let mut endless = Lines::new(tokio::io::repeat(b'x'));
        assert_eq!(endless.next(1000).await.unwrap(), Read::More);
        assert_eq!(endless.skip(1 << 20).await.unwrap(), None);
    }
}
