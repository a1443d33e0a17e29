//! The bytes that the guest sends for an operation, and its reply.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::io::{AsyncRead, AsyncReadExt};
use serde::de::DeserializeOwned;
use stockade_provider::{FileError, FileErrorKind};
use stockade_wire::{
    FileDone, FileReply, FrameError, MAX_CHUNK_BYTES, MAX_FILE_MESSAGE_BYTES, read_message_within,
};
use tokio::sync::OwnedSemaphorePermit;

use super::super::LinkError;
use super::super::ledger::Counted;
use super::answer::Subject;

const NO_BYTES: &str = "it sent bytes where none belong";

/// The bytes of an operation up to their end. If the reply is an error, reading it fails.
pub(super) struct Body {
    state: State,
    subject: Subject,
    /// How many bytes the guest may still send.
    left: u64,
    /// Bytes that were read ahead.
    ahead: Option<u8>,
    _permit: OwnedSemaphorePermit,
}

enum State {
    /// Inside the length of the next chunk.
    Length {
        stream: Counted,
        bytes: [u8; 4],
        filled: usize,
    },
    Chunk {
        stream: Counted,
        left: usize,
    },
    Reply(BoxFuture<'static, Result<FileReply, FrameError>>),
    Ended,
}

impl Body {
    pub(super) fn new(stream: Counted, subject: Subject, permit: OwnedSemaphorePermit) -> Body {
        let state = State::Length { stream, bytes: [0; 4], filled: 0 };
        Body { state, subject, left: u64::MAX, ahead: None, _permit: permit }
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Waits for the first byte or the reply, so that an operation that fails at once is an error
    /// and no stream. The guest may send at most `most` bytes.
    pub(super) async fn started(mut self, most: Option<u64>) -> Result<Body, FileError> {
        self.left = most.unwrap_or(u64::MAX);
        let mut first = [0];
        let read = AsyncReadExt::read(&mut self, &mut first).await;
        if read.map_err(|error| self.error(error))? == 1 {
            self.ahead = Some(first[0]);
        }
        Ok(self)
    }

    /// The next message among the bytes; `None` at their end.
    pub(super) async fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FileError> {
        match read_message_within(self, MAX_FILE_MESSAGE_BYTES).await {
            Ok(message) => Ok(Some(message)),
            Err(FrameError::Closed) => Ok(None),
            Err(FrameError::Read { source }) => Err(self.error(source)),
            Err(source) => Err(self.subject.link_failed(LinkError::Hear { source })),
        }
    }

    /// The error of an operation out of the error of its stream.
    fn error(&self, error: io::Error) -> FileError {
        match error.downcast::<FileError>() {
            Ok(error) => error,
            Err(other) => self.subject.failed(FileErrorKind::Lost, other),
        }
    }

    fn poll_step(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<usize>, FileError>> {
        match &mut self.state {
            State::Length { stream, bytes, filled } => {
                let read = Pin::new(stream).poll_read(context, &mut bytes[*filled..]);
                *filled += match ready!(read) {
                    Ok(0) => return Poll::Ready(Err(self.gone())),
                    Ok(read) => read,
                    Err(error) => return Poll::Ready(Err(self.error(error))),
                };
                if *filled == bytes.len() {
                    let length = u32::from_le_bytes(*bytes) as usize;
                    self.next_chunk(length)?;
                }
                Poll::Ready(Ok(None))
            }
            State::Chunk { stream, left } => {
                let wanted = buffer.len().min(*left);
                match ready!(Pin::new(stream).poll_read(context, &mut buffer[..wanted])) {
                    Ok(0) => Poll::Ready(Err(self.gone())),
                    Ok(read) => {
                        *left -= read;
                        if *left == 0 {
                            self.after_chunk();
                        }
                        Poll::Ready(Ok(Some(read)))
                    }
                    Err(error) => Poll::Ready(Err(self.error(error))),
                }
            }
            State::Reply(reply) => {
                let reply = ready!(reply.as_mut().poll(context));
                self.state = State::Ended;
                match reply {
                    Ok(FileReply::Done(_)) => Poll::Ready(Ok(Some(0))),
                    Ok(FileReply::Failed(failure)) => {
                        Poll::Ready(Err(self.subject.refused(&failure)))
                    }
                    Err(source) => {
                        Poll::Ready(Err(self.subject.link_failed(LinkError::Hear { source })))
                    }
                }
            }
            State::Ended => Poll::Ready(Ok(Some(0))),
        }
    }

    fn next_chunk(&mut self, length: usize) -> Result<(), FileError> {
        let State::Length { stream, .. } = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        if length == 0 {
            self.state = State::Reply(Box::pin(reply(stream)));
            return Ok(());
        }
        if length > MAX_CHUNK_BYTES {
            return Err(self.subject.breach("it sent a chunk that is too long"));
        }
        self.left = (self.left.checked_sub(length as u64))
            .ok_or_else(|| self.subject.breach("it sent more bytes than were asked for"))?;
        self.state = State::Chunk { stream, left: length };
        Ok(())
    }

    fn after_chunk(&mut self) {
        if let State::Chunk { stream, .. } = std::mem::replace(&mut self.state, State::Ended) {
            self.state = State::Length { stream, bytes: [0; 4], filled: 0 };
        }
    }

    /// The stream ended before the reply.
    fn gone(&mut self) -> FileError {
        self.state = State::Ended;
        self.subject.of(FileErrorKind::Lost)
    }
}

impl AsyncRead for Body {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(first) = buffer.first_mut() else { return Poll::Ready(Ok(0)) };
        if let Some(ahead) = self.ahead.take() {
            *first = ahead;
            return Poll::Ready(Ok(1));
        }
        loop {
            match ready!(self.poll_step(context, buffer)) {
                Ok(Some(read)) => return Poll::Ready(Ok(read)),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

async fn reply(mut stream: impl AsyncRead + Unpin) -> Result<FileReply, FrameError> {
    read_message_within(&mut stream, MAX_FILE_MESSAGE_BYTES).await
}

/// The result of an operation for which the guest sends no bytes.
pub(super) async fn only_reply(
    mut stream: impl AsyncRead + Unpin,
    subject: &Subject,
) -> Result<FileDone, FileError> {
    let mut length = [1; 4];
    let read = stream.read_exact(&mut length).await;
    read.map_err(|error| subject.failed(FileErrorKind::Lost, error))?;
    if length != [0; 4] {
        return Err(subject.breach(NO_BYTES));
    }
    match reply(stream).await {
        Ok(FileReply::Done(done)) => Ok(done),
        Ok(FileReply::Failed(failure)) => Err(subject.refused(&failure)),
        Err(source) => Err(subject.link_failed(LinkError::Hear { source })),
    }
}
