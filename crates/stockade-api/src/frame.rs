//! Frames between a client and the supervisor of a session.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{ContextResult, ControlMessage, Reply, Request};

/// The maximum size of a frame's content.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The first frame of a client.
    Request(Request),
    /// An answer of the supervisor.
    Reply(Reply),
    /// Input for the program.
    Input(Vec<u8>),
    /// The end of the input.
    InputEnd,
    /// Standard output of the program, or a part of a file.
    Output(Vec<u8>),
    /// Standard error of the program.
    Error(Vec<u8>),
    /// A signal for the program, or a new size of its terminal.
    Control(ControlMessage),
    /// A part of the code.
    Code(Vec<u8>),
    /// The end of the code.
    CodeEnd,
    /// Output in the log of a session.
    Log(LogChunk),
    /// A part of a value that a call of a context shows.
    Result(ResultPart),
}

/// A part of a [`ContextResult`] as JSON, which may be longer than a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// Whether no further part of the value follows.
    pub is_last: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl ResultPart {
    /// The most bytes of JSON in one part.
    const MAX_BYTES: usize = 512 << 10;

    /// The parts of a value.
    pub fn of(result: &ContextResult) -> Result<Vec<ResultPart>, FrameError> {
        let bytes = json(result)?;
        let count = bytes.len().div_ceil(ResultPart::MAX_BYTES);
        let parts = bytes.chunks(ResultPart::MAX_BYTES).enumerate();
        Ok(parts
            .map(|(at, part)| ResultPart { is_last: at + 1 == count, bytes: part.to_vec() })
            .collect())
    }
}

/// Joins the parts of values.
#[derive(Debug, Default)]
pub struct ResultParts(Vec<u8>);

impl ResultParts {
    /// The longest value, as JSON.
    const MAX_BYTES: usize = 64 << 20;

    /// Adds a part; returns the value when it is complete.
    pub fn push(&mut self, part: ResultPart) -> Result<Option<ContextResult>, FrameError> {
        let bytes = self.0.len() + part.bytes.len();
        if bytes > ResultParts::MAX_BYTES {
            return Err(FrameError::TooLong { bytes });
        }
        self.0.extend(part.bytes);
        match part.is_last {
            true => parsed(&std::mem::take(&mut self.0)).map(Some),
            false => Ok(None),
        }
    }
}

/// Output of one program, as the log of a session has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    /// The program's number in the session.
    pub execution: u64,
    /// Whether it is standard error.
    pub is_error: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl LogChunk {
    /// The bytes before the output: the number and the stream.
    const HEAD: usize = size_of::<u64>() + 1;

    fn to_bytes(&self) -> Vec<u8> {
        let head = self.execution.to_le_bytes();
        [&head[..], &[u8::from(self.is_error)], &self.bytes].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<LogChunk, FrameError> {
        let Some((head, rest)) = bytes.split_first_chunk::<{ LogChunk::HEAD }>() else {
            return Err(FrameError::TooShort { bytes: bytes.len() });
        };
        let [number @ .., stream] = head;
        let execution = u64::from_le_bytes(*number);
        Ok(LogChunk { execution, is_error: *stream != 0, bytes: rest.to_vec() })
    }
}

/// Why a frame could not be sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The other end closed the connection between two frames.
    #[error("the connection has ended")]
    Closed,
    /// The kernel refused to read or write.
    #[error("cannot use the connection")]
    Connection {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A frame is longer than allowed.
    #[error("a frame of {bytes} bytes is longer than {MAX_FRAME_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A frame is too short for its kind.
    #[error("a frame of {bytes} bytes is shorter than its kind allows")]
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// A frame has an unknown kind.
    #[error("a frame has the unknown kind {kind}")]
    Kind {
        /// The kind.
        kind: u8,
    },
    /// The content of a frame is not what its kind requires.
    #[error("the content of a frame is not valid")]
    Content {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Sends one frame.
pub async fn write_frame(
    stream: &mut (impl AsyncWrite + Unpin),
    frame: &Frame,
) -> Result<(), FrameError> {
    let (kind, bytes) = match frame {
        Frame::Request(request) => (0, json(request)?),
        Frame::Reply(reply) => (1, json(reply)?),
        Frame::Input(bytes) => (2, bytes.clone()),
        Frame::InputEnd => (3, Vec::new()),
        Frame::Output(bytes) => (4, bytes.clone()),
        Frame::Error(bytes) => (5, bytes.clone()),
        Frame::Control(control) => (6, json(control)?),
        Frame::Code(bytes) => (7, bytes.clone()),
        Frame::CodeEnd => (8, Vec::new()),
        Frame::Log(chunk) => (9, chunk.to_bytes()),
        Frame::Result(part) => (10, [&[u8::from(part.is_last)], part.bytes.as_slice()].concat()),
    };
    if bytes.len() > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong { bytes: bytes.len() });
    }
    let mut head = [kind, 0, 0, 0, 0];
    let length = u32::try_from(bytes.len()).expect("a frame is at most 1 MiB long");
    head[1..].copy_from_slice(&length.to_le_bytes());
    let written = async {
        stream.write_all(&head).await?;
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    written.await.map_err(|source| FrameError::Connection { source })
}

/// Receives one frame.
pub async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Frame, FrameError> {
    let kind = match stream.read_u8().await {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(FrameError::Closed);
        }
        Err(source) => return Err(FrameError::Connection { source }),
    };
    let failed = |source| FrameError::Connection { source };
    let bytes = usize::try_from(stream.read_u32_le().await.map_err(failed)?).unwrap_or(usize::MAX);
    if bytes > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong { bytes });
    }
    let mut content = vec![0; bytes];
    stream.read_exact(&mut content).await.map_err(failed)?;
    Ok(match kind {
        0 => Frame::Request(parsed(&content)?),
        1 => Frame::Reply(parsed(&content)?),
        2 => Frame::Input(content),
        3 => Frame::InputEnd,
        4 => Frame::Output(content),
        5 => Frame::Error(content),
        6 => Frame::Control(parsed(&content)?),
        7 => Frame::Code(content),
        8 => Frame::CodeEnd,
        9 => Frame::Log(LogChunk::from_bytes(&content)?),
        10 => match content.split_first() {
            Some((is_last, bytes)) => {
                Frame::Result(ResultPart { is_last: *is_last != 0, bytes: bytes.to_vec() })
            }
            None => return Err(FrameError::TooShort { bytes: 0 }),
        },
        kind => return Err(FrameError::Kind { kind }),
    })
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    serde_json::to_vec(value).map_err(|source| FrameError::Content { source })
}

fn parsed<T: DeserializeOwned>(content: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(content).map_err(|source| FrameError::Content { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_arrive_as_they_were_sent() {
        let sent = [
            Frame::Request(Request::Inspect),
            Frame::Input(b"\x00\xff".to_vec()),
            Frame::InputEnd,
            Frame::Control(ControlMessage::Signal { signal: 2 }),
            Frame::Log(LogChunk { execution: 1 << 40, is_error: true, bytes: vec![0, 255] }),
            Frame::Result(ResultPart { is_last: true, bytes: b"{}".to_vec() }),
            Frame::Reply(Reply::Done),
        ];
        let mut bytes = Vec::new();
        for frame in &sent {
            write_frame(&mut bytes, frame).await.unwrap();
        }
        let mut stream = &bytes[..];
        for frame in &sent {
            assert_eq!(read_frame(&mut stream).await.unwrap(), *frame);
        }
        assert!(matches!(read_frame(&mut stream).await, Err(FrameError::Closed)));
    }

    #[test]
    fn value_longer_than_a_frame_arrives_in_parts() {
        let png = Some("aGk=".repeat(1 << 18));
        let result = ContextResult { png, is_main_result: true, ..ContextResult::default() };
        let parts = ResultPart::of(&result).unwrap();
        assert_eq!(parts.len(), 3);
        let mut joined = ResultParts::default();
        let found: Vec<_> = parts.into_iter().map(|part| joined.push(part).unwrap()).collect();
        assert_eq!(found, [None, None, Some(result)]);
    }

    #[tokio::test]
    async fn long_unknown_and_malformed_frames_are_refused() {
        let mut long = &[2, 1, 0, 16, 0][..];
        let refused = read_frame(&mut long).await;
        assert!(matches!(refused, Err(FrameError::TooLong { bytes: 1_048_577 })), "{refused:?}");
        let mut unknown = &[99, 0, 0, 0, 0][..];
        assert!(matches!(read_frame(&mut unknown).await, Err(FrameError::Kind { kind: 99 })));
        let mut short = &[9, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..];
        assert!(matches!(read_frame(&mut short).await, Err(FrameError::TooShort { bytes: 8 })));
        let mut malformed = &[0, 2, 0, 0, 0, b'{', b'}'][..];
        assert!(matches!(read_frame(&mut malformed).await, Err(FrameError::Content { .. })));
        let mut cut = &[2, 9, 0, 0, 0, b'x'][..];
        assert!(matches!(read_frame(&mut cut).await, Err(FrameError::Connection { .. })));
    }
}
