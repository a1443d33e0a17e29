//! Checks what a server of HTTP/1.1 answers before the library reads it, so that the limits are
//! those for a program of HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::{Asked, Chunked, Length, head_end, parse_response};

/// A connection whose responses are checked.
pub(super) struct Strict<S> {
    stream: S,
    responses: Responses,
}

impl<S> Strict<S> {
    /// `head_only` is set while the request is a HEAD.
    pub(super) fn new(stream: S, head_only: Arc<AtomicBool>) -> Strict<S> {
        Strict { stream, responses: Responses { head_only, position: Position::start() } }
    }
}

/// Where the next byte belongs.
struct Responses {
    head_only: Arc<AtomicBool>,
    position: Position,
}

enum Position {
    /// A head, with its bytes so far.
    Head(Vec<u8>),
    /// So many bytes of a body.
    Bytes(u64),
    Chunks(Box<Chunked>),
    UntilClose,
}

impl Position {
    fn start() -> Position {
        Position::Head(Vec::new())
    }
}

impl Responses {
    fn check(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let (used, next) = match &mut self.position {
                Position::Head(held) => {
                    let before = held.len();
                    held.extend_from_slice(bytes);
                    let end = head_end(held, before).map_err(|error| error.to_string())?;
                    let Some(end) = end else { return Ok(()) };
                    let head_only = self.head_only.load(Ordering::Relaxed);
                    let asked = Asked { head_only, websocket: false };
                    let read = parse_response(&held[..end], asked);
                    let length = read.map_err(|error| error.to_string())?.length;
                    let next = match length {
                        Length::Nothing | Length::Bytes(0) => Position::start(),
                        Length::Bytes(bytes) => Position::Bytes(bytes),
                        Length::Chunks => Position::Chunks(Box::default()),
                        Length::UntilClose => Position::UntilClose,
                    };
                    (end - before, Some(next))
                }
                Position::Bytes(left) => {
                    let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= used as u64;
                    (used, (*left == 0).then(Position::start))
                }
                Position::Chunks(chunks) => {
                    let passing = chunks.advance(bytes).map_err(|error| error.to_string())?;
                    (passing.pass + passing.drop, passing.is_done.then(Position::start))
                }
                Position::UntilClose => return Ok(()),
            };
            bytes = &bytes[used..];
            if let Some(next) = next {
                self.position = next;
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let checked = self.responses.check(&buffer.filled()[before..]);
        Poll::Ready(checked.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(answers: &[u8], head_only: bool, size: usize) -> Result<(), String> {
        let head_only = Arc::new(AtomicBool::new(head_only));
        let mut responses = Responses { head_only, position: Position::start() };
        answers.chunks(size).try_for_each(|part| responses.check(part))
    }

    #[test]
    fn plain_responses_are_accepted_in_any_segmentation() {
        let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel\nl".to_owned();
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n";
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        let whole = [&bytes, chunks, interim, "HTTP/1.1 200 OK\r\n\r\nuntil \n the end"].concat();
        for size in [1, 2, 7, 1000] {
            assert_eq!(checked(whole.as_bytes(), false, size), Ok(()));
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".repeat(2);
            assert_eq!(checked(head.as_bytes(), true, size), Ok(()));
        }
    }

    #[test]
    fn what_a_program_of_http1_does_not_get_is_refused() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(70_000));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101));
        for (answer, why) in [
            (long.as_str(), "longer than 64 KiB"),
            (&many, "more than 100 fields"),
            ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", "a line does not end in CR LF"),
            (&format!("{chunked}3;a=b\r\nabc\r\n0\r\n\r\n"), "not a plain hexadecimal number"),
            (&format!("{chunked}3\nabc\n0\n\n"), "not a plain hexadecimal number"),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "not requested"),
        ] {
            for size in [1, 7, 100_000] {
                let error = checked(answer.as_bytes(), false, size).unwrap_err();
                assert!(error.contains(why), "{error}");
            }
        }
    }
}
