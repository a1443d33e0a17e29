//! Reads lines from an untrusted peer and never buffers more of a line than the caller allows.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How many bytes of each end of a discarded line are kept, to identify its request.
const KEPT: usize = 128;

/// Reads lines. Every method is cancel safe.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    held: Vec<u8>,
    /// The number of discarded bytes of the current line, and the last of them.
    dropped: u64,
    tail: Vec<u8>,
}

/// The two ends of a discarded line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A whole line without its line feed.
    Line(Vec<u8>),
    /// The line is longer than the limit; its bytes are kept for another try.
    More,
    /// The input has ended. A last line without line feed is not returned.
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
            // One byte more than allowed shows that the line is longer.
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

    /// Whether a line has started but not ended.
    pub(crate) fn is_in_line(&self) -> bool {
        !self.held.is_empty()
    }

    /// Resolves when the input has ended and nothing is left to read. While unread bytes are left
    /// it never resolves: what follows them is not known.
    pub(crate) async fn ended(&mut self) {
        let is_read = self.reader.buffer().is_empty();
        if is_read && matches!(self.reader.fill_buf().await, Ok([]) | Err(_)) {
            return;
        }
        std::future::pending().await
    }

    /// Discards the current line and returns its two ends. `None` if the line does not end within
    /// `most` bytes, or at all.
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

    /// Counts discarded bytes of a line and keeps the last of them.
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
    async fn lines_are_whole_and_long_ones_can_be_continued_or_skipped() {
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
    async fn endless_line_is_given_up() {
        let mut endless = Lines::new(tokio::io::repeat(b'x'));
        assert_eq!(endless.next(1000).await.unwrap(), Read::More);
        assert_eq!(endless.skip(1 << 20).await.unwrap(), None);
    }
}
