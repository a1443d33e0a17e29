//! Forwards bodies as they arrive.

use std::io;

use super::chunked::{ChunkError, Chunked};
use super::fields::{Fields, Length};
use crate::secrets::{Misplaced, Screen};
use crate::side::{Incoming, Outgoing};

/// The most fields of a trailer.
const MAX_TRAILERS: usize = 32;

/// Why a body was not forwarded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("{0}")]
    Malformed(#[from] ChunkError),
    #[error("the body ended too early")]
    Short,
    #[error("the sender broke off")]
    From(#[source] io::Error),
    #[error("the receiver broke off")]
    To(#[source] io::Error),
    #[error("it has the placeholder of a secret")]
    Misplaced(usize),
}

/// Forwards one body and nothing that follows it.
pub(crate) async fn pass_body(
    (from, to): (&mut Incoming, &mut Outgoing),
    length: Length,
    screen: &mut Screen,
) -> Result<(), BodyError> {
    if !screen.is_off() {
        return pass_screened(from, to, length, screen).await;
    }
    match length {
        Length::Nothing => Ok(()),
        Length::Bytes(bytes) => pass_bytes(from, to, bytes).await,
        Length::Chunks => pass_chunks(from, to).await,
        Length::UntilClose => loop {
            if from.held().is_empty() && from.fill().await.map_err(BodyError::From)? == 0 {
                return Ok(());
            }
            let bytes = from.held().len();
            to.send(from.held()).await.map_err(BodyError::To)?;
            from.used(bytes);
        },
    }
}

async fn pass_bytes(from: &mut Incoming, to: &mut Outgoing, bytes: u64) -> Result<(), BodyError> {
    let mut left = bytes;
    while left > 0 {
        if from.held().is_empty() && from.fill().await.map_err(BodyError::From)? == 0 {
            return Err(BodyError::Short);
        }
        let take = from.held().len().min(usize::try_from(left).unwrap_or(usize::MAX));
        to.send(&from.held()[..take]).await.map_err(BodyError::To)?;
        from.used(take);
        left -= take as u64;
    }
    Ok(())
}

/// The same through a search for secrets. What passes has the length of what came.
async fn pass_screened(
    from: &mut Incoming,
    to: &mut Outgoing,
    length: Length,
    screen: &mut Screen,
) -> Result<(), BodyError> {
    let misplaced = |error: Misplaced| BodyError::Misplaced(error.0);
    let mut left = match length {
        Length::Nothing => return Ok(()),
        Length::Chunks => return pass_chunks_screened(from, to, screen).await,
        Length::Bytes(bytes) => bytes,
        Length::UntilClose => u64::MAX,
    };
    while left > 0 {
        if from.held().is_empty() && from.fill().await.map_err(BodyError::From)? == 0 {
            if length == Length::UntilClose {
                break;
            }
            return Err(BodyError::Short);
        }
        let take = from.held().len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let passing = screen.pass(&from.held()[..take]).map_err(misplaced)?;
        to.send(&passing).await.map_err(BodyError::To)?;
        from.used(take);
        left -= take as u64;
    }
    let rest = screen.finish();
    to.send(&rest).await.map_err(BodyError::To)
}

/// Reads chunks and writes them anew, because a secret can be divided among several.
async fn pass_chunks_screened(
    from: &mut Incoming,
    to: &mut Outgoing,
    screen: &mut Screen,
) -> Result<(), BodyError> {
    let misplaced = |error: Misplaced| BodyError::Misplaced(error.0);
    let mut chunks = Chunked::default();
    loop {
        if from.held().is_empty() && from.fill().await.map_err(BodyError::From)? == 0 {
            return Err(BodyError::Short);
        }
        let piece = chunks.piece(from.held())?;
        let content = from.held()[piece.skip..piece.skip + piece.content].to_vec();
        from.used(piece.skip + piece.content);
        let passing = screen.pass(&content).map_err(misplaced)?;
        send_chunk(to, &passing).await?;
        if piece.is_done {
            let rest = screen.finish();
            send_chunk(to, &rest).await?;
            let mut trailer = chunks.trailer().to_vec();
            screen.whole(&mut trailer).map_err(misplaced)?;
            let mut end = b"0\r\n".to_vec();
            passing_trailers(&trailer)?.write(&mut end);
            end.extend_from_slice(b"\r\n");
            return to.send(&end).await.map_err(BodyError::To);
        }
    }
}

async fn send_chunk(to: &mut Outgoing, content: &[u8]) -> Result<(), BodyError> {
    if content.is_empty() {
        return Ok(());
    }
    let size = format!("{:x}\r\n", content.len());
    let chunk = [size.as_bytes(), content, b"\r\n"].concat();
    to.send(&chunk).await.map_err(BodyError::To)
}

/// The fields of a trailer that may follow a body: none that frames, routes or authorises.
fn passing_trailers(trailer: &[u8]) -> Result<Fields, BodyError> {
    let mut storage = [httparse::EMPTY_HEADER; MAX_TRAILERS];
    let whole = [trailer, b"\r\n"].concat();
    match httparse::parse_headers(&whole, &mut storage) {
        Ok(httparse::Status::Complete((length, fields))) if length == whole.len() => {
            Ok(Fields::read(fields).of_trailer())
        }
        _ => Err(BodyError::Malformed(ChunkError::Trailer)),
    }
}

async fn pass_chunks(from: &mut Incoming, to: &mut Outgoing) -> Result<(), BodyError> {
    let mut chunks = Chunked::default();
    loop {
        if from.held().is_empty() && from.fill().await.map_err(BodyError::From)? == 0 {
            return Err(BodyError::Short);
        }
        let passing = chunks.advance(from.held())?;
        if passing.pass > 0 {
            to.send(&from.held()[..passing.pass]).await.map_err(BodyError::To)?;
        }
        from.used(passing.pass + passing.drop);
        if passing.is_done {
            return to.send(b"\r\n").await.map_err(BodyError::To);
        }
    }
}
