//! Forwards bodies as they arrive.

use std::io;

use super::chunked::{ChunkError, Chunked};
use super::fields::Length;
use crate::side::{Incoming, Outgoing};

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
}

/// Forwards one body and nothing that follows it.
pub(crate) async fn pass_body(
    from: &mut Incoming,
    to: &mut Outgoing,
    length: Length,
) -> Result<(), BodyError> {
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
