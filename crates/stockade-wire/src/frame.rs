//! Frames: a length, then that many bytes of JSON.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use futures_io::{AsyncRead, AsyncWrite};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum length of the JSON of one frame.
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
        /// How many bytes of the header or the body are missing.
        missing: usize,
    },
    /// The announced or needed length is over the limit.
    #[error("a frame of {bytes} bytes is over the limit of {limit}")]
    TooLong {
        /// The length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The body is not exactly one known message.
    #[error("the frame is not a message of this protocol")]
    Malformed {
        /// The error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
    /// Reading from the stream failed.
    #[error("cannot read a frame")]
    Read {
        /// The error of the stream.
        #[source]
        source: io::Error,
    },
    /// Writing to the stream failed.
    #[error("cannot write a frame")]
    Write {
        /// The error of the stream.
        #[source]
        source: io::Error,
    },
}

/// Reads one message, and no byte after it.
///
/// Memory grows with the bytes that arrive, not with the length in the header.
pub async fn read_message<T, S>(stream: &mut S) -> Result<T, FrameError>
where
    T: DeserializeOwned,
    S: AsyncRead + Unpin,
{
    read_message_within(stream, MAX_FRAME_BYTES).await
}

/// Reads one message with at most `limit` bytes of JSON, and no byte after it.
pub async fn read_message_within<T, S>(stream: &mut S, limit: usize) -> Result<T, FrameError>
where
    T: DeserializeOwned,
    S: AsyncRead + Unpin,
{
    let header = read_up_to(stream, size_of::<u32>()).await?;
    let length = match <[u8; 4]>::try_from(header.as_slice()) {
        Ok(bytes) => u32::from_le_bytes(bytes) as usize,
        Err(_) if header.is_empty() => return Err(FrameError::Closed),
        Err(_) => return Err(FrameError::Truncated { missing: size_of::<u32>() - header.len() }),
    };
    if length > limit {
        return Err(FrameError::TooLong { bytes: length, limit });
    }
    let body = read_up_to(stream, length).await?;
    if body.len() < length {
        return Err(FrameError::Truncated { missing: length - body.len() });
    }
    serde_json::from_slice(&body).map_err(|source| FrameError::Malformed { source })
}

/// Writes one message and flushes it.
pub async fn write_message<T, S>(stream: &mut S, message: &T) -> Result<(), FrameError>
where
    T: Serialize,
    S: AsyncWrite + Unpin,
{
    let frame = encode(message)?;
    write_all(stream, &frame).await.map_err(|source| FrameError::Write { source })
}

/// Encodes one frame.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let body = serde_json::to_vec(message).map_err(|source| FrameError::Malformed { source })?;
    let too_long = FrameError::TooLong { bytes: body.len(), limit: MAX_FRAME_BYTES };
    let Ok(length) = u32::try_from(body.len()) else { return Err(too_long) };
    if body.len() > MAX_FRAME_BYTES {
        return Err(too_long);
    }
    // One buffer: writing header and body separately would wake the reader twice.
    Ok([length.to_le_bytes().as_slice(), &body].concat())
}

/// Reads up to `limit` bytes, fewer if the stream ends first.
async fn read_up_to<S>(stream: &mut S, limit: usize) -> Result<Vec<u8>, FrameError>
where
    S: AsyncRead + Unpin,
{
    const STEP: usize = 8 << 10;
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        let start = bytes.len();
        bytes.resize(limit.min(start + STEP), 0);
        let read =
            poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut bytes[start..]));
        let read = match read.await {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                bytes.truncate(start);
                continue;
            }
            Err(source) => return Err(FrameError::Read { source }),
        };
        bytes.truncate(start + read);
        if read == 0 {
            break;
        }
    }
    Ok(bytes)
}

async fn write_all<S: AsyncWrite + Unpin>(stream: &mut S, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    poll_fn(|context| Pin::new(&mut *stream).poll_flush(context)).await
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
