//! Frames: a length, then that many bytes of JSON.

use std::io::{self, Read, Write};

use crate::message::Message;

/// The most bytes the JSON of one frame may have.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The stream ended between two frames.
    #[error("the stream ended before a frame began")]
    Closed,
    /// The stream ended inside a frame.
    #[error("the stream ended {missing} bytes before the end of a frame")]
    Truncated {
        /// How many bytes of the header or of the announced body did not come.
        missing: usize,
    },
    /// The announced or needed length is over the limit.
    #[error("a frame of {bytes} bytes is over the limit of {MAX_FRAME_BYTES}")]
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// The body is not exactly one known message.
    #[error("the frame is not a message of this protocol")]
    Malformed {
        /// What the JSON parser said.
        #[source]
        source: serde_json::Error,
    },
    /// The stream itself failed while reading.
    #[error("cannot read a frame")]
    Read {
        /// What the stream said.
        #[source]
        source: io::Error,
    },
    /// The stream itself failed while writing.
    #[error("cannot write a frame")]
    Write {
        /// What the stream said.
        #[source]
        source: io::Error,
    },
}

/// Reads one message and not a byte more.
///
/// Memory grows with the bytes that arrive, never with the length that was announced.
pub fn read_message(stream: &mut impl Read) -> Result<Message, FrameError> {
    let mut header = Vec::new();
    read_up_to(stream, size_of::<u32>(), &mut header)?;
    let length = match <[u8; 4]>::try_from(header.as_slice()) {
        Ok(bytes) => u32::from_le_bytes(bytes) as usize,
        Err(_) if header.is_empty() => return Err(FrameError::Closed),
        Err(_) => return Err(FrameError::Truncated { missing: size_of::<u32>() - header.len() }),
    };
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong { bytes: length });
    }
    let mut body = Vec::new();
    read_up_to(stream, length, &mut body)?;
    if body.len() < length {
        return Err(FrameError::Truncated { missing: length - body.len() });
    }
    serde_json::from_slice(&body).map_err(|source| FrameError::Malformed { source })
}

/// Writes one message and flushes it.
pub fn write_message(stream: &mut impl Write, message: &Message) -> Result<(), FrameError> {
    let body = serde_json::to_vec(message).map_err(|source| FrameError::Malformed { source })?;
    let too_long = FrameError::TooLong { bytes: body.len() };
    let Ok(length) = u32::try_from(body.len()) else { return Err(too_long) };
    if body.len() > MAX_FRAME_BYTES {
        return Err(too_long);
    }
    // One write: a frame that is split into header and body costs the reader a second wake-up.
    let frame = [length.to_le_bytes().as_slice(), &body].concat();
    stream
        .write_all(&frame)
        .and_then(|()| stream.flush())
        .map_err(|source| FrameError::Write { source })
}

fn read_up_to(stream: &mut impl Read, limit: usize, into: &mut Vec<u8>) -> Result<(), FrameError> {
    match stream.take(limit as u64).read_to_end(into) {
        Ok(_) => Ok(()),
        Err(source) => Err(FrameError::Read { source }),
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
