//! Finds the end of a chunked body byte by byte, so that segmentation does not matter.

/// The most bytes of trailers; they are dropped.
const MAX_TRAILER_BYTES: usize = 8 * 1024;
/// The most digits of a chunk's size.
const MAX_DIGITS: u8 = 15;

/// Why a chunked body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkError {
    #[error("a chunk's size is not a plain hexadecimal number")]
    Size,
    #[error("a chunk does not end at its declared size")]
    End,
    #[error("the trailer is malformed or too long")]
    Trailer,
}

/// The position in the body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunked {
    state: State,
    trailer_bytes: usize,
    /// The lines of the trailer.
    trailer: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Size {
        value: u64,
        digits: u8,
    },
    SizeEnd {
        value: u64,
    },
    Content {
        left: u64,
    },
    ContentCarriageReturn,
    ContentEnd,
    TrailerStart,
    Trailer,
    TrailerLineEnd,
    LastLineEnd,
    Done,
}

/// What to do with the first bytes of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passing {
    /// So many bytes are forwarded unchanged.
    pub(crate) pass: usize,
    /// So many bytes after them are dropped.
    pub(crate) drop: usize,
    /// The body ends there; an empty line ends it for the receiver.
    pub(crate) is_done: bool,
}

/// The first content in some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// So many bytes frame the body.
    pub(crate) skip: usize,
    /// So many bytes after them are content.
    pub(crate) content: usize,
    /// The body ends there.
    pub(crate) is_done: bool,
}

impl Chunked {
    /// Finds the next content. What follows it stays for the next call.
    pub(crate) fn piece(&mut self, bytes: &[u8]) -> Result<Piece, ChunkError> {
        let mut index = 0;
        while index < bytes.len() && self.state != State::Done {
            if let State::Content { left } = self.state {
                let content = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - index);
                let left = left - content as u64;
                self.state = match left {
                    0 => State::ContentCarriageReturn,
                    left => State::Content { left },
                };
                return Ok(Piece { skip: index, content, is_done: false });
            }
            let was_line =
                matches!(self.state, State::TrailerStart | State::Trailer | State::TrailerLineEnd);
            self.state = self.next(bytes[index])?;
            if was_line && self.state != State::LastLineEnd {
                self.trailer.push(bytes[index]);
            }
            index += 1;
        }
        Ok(Piece { skip: index, content: 0, is_done: self.state == State::Done })
    }

    /// The lines of the trailer, after the end of the body.
    pub(crate) fn trailer(&self) -> &[u8] {
        &self.trailer
    }

    /// Parses more bytes.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Passing, ChunkError> {
        let mut index = 0;
        let mut pass = 0;
        while index < bytes.len() && self.state != State::Done {
            if let State::Content { left } = self.state {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - index);
                index += take;
                pass = index;
                let left = left - take as u64;
                self.state = match left {
                    0 => State::ContentCarriageReturn,
                    left => State::Content { left },
                };
                continue;
            }
            let was_trailer = self.in_trailer();
            self.state = self.next(bytes[index])?;
            index += 1;
            if !was_trailer {
                pass = index;
            }
        }
        Ok(Passing { pass, drop: index - pass, is_done: self.state == State::Done })
    }

    fn in_trailer(&self) -> bool {
        matches!(
            self.state,
            State::TrailerStart | State::Trailer | State::TrailerLineEnd | State::LastLineEnd
        )
    }

    fn next(&mut self, byte: u8) -> Result<State, ChunkError> {
        if self.in_trailer() {
            self.trailer_bytes += 1;
            if self.trailer_bytes > MAX_TRAILER_BYTES {
                return Err(ChunkError::Trailer);
            }
        }
        match (self.state, byte) {
            (State::Start, byte) => {
                digit(byte).map(|value| State::Size { value, digits: 1 }).ok_or(ChunkError::Size)
            }
            (State::Size { value, .. }, b'\r') => Ok(State::SizeEnd { value }),
            (State::Size { value, digits }, byte) if digits < MAX_DIGITS => digit(byte)
                .map(|low| State::Size { value: value << 4 | low, digits: digits + 1 })
                .ok_or(ChunkError::Size),
            (State::SizeEnd { value: 0 }, b'\n') => Ok(State::TrailerStart),
            (State::SizeEnd { value }, b'\n') => Ok(State::Content { left: value }),
            (State::Size { .. } | State::SizeEnd { .. }, _) => Err(ChunkError::Size),
            (State::ContentCarriageReturn, b'\r') => Ok(State::ContentEnd),
            (State::ContentEnd, b'\n') => Ok(State::Start),
            (State::Content { .. } | State::ContentCarriageReturn | State::ContentEnd, _) => {
                Err(ChunkError::End)
            }
            (State::TrailerStart, b'\r') => Ok(State::LastLineEnd),
            (State::Trailer, b'\r') => Ok(State::TrailerLineEnd),
            (State::TrailerStart | State::Trailer, b'\t' | b' '..=b'~' | 0x80..=0xff) => {
                Ok(State::Trailer)
            }
            (State::TrailerLineEnd, b'\n') => Ok(State::TrailerStart),
            (State::LastLineEnd, b'\n') => Ok(State::Done),
            _ => Err(ChunkError::Trailer),
        }
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
#[path = "chunked_tests.rs"]
mod tests;
