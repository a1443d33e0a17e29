//! Reads heads from a stream, bounded in bytes and time.

use std::time::Duration;

use tokio::time::timeout;

use super::head::{HeadError, head_end};
use crate::side::Incoming;

/// Why there is no head.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{0}")]
    Head(#[from] HeadError),
    #[error("the head did not come in time")]
    TooSlow,
    #[error("the connection ended in the middle of a head")]
    Ended,
    #[error("the connection broke")]
    Broken(#[source] std::io::Error),
}

/// Reads one head; `None` if the peer closes or idles before the first byte.
pub(crate) async fn read_head(
    incoming: &mut Incoming,
    first_byte: Duration,
    whole: Duration,
) -> Result<Option<Vec<u8>>, ReadError> {
    if incoming.held().is_empty() {
        match timeout(first_byte, incoming.fill()).await {
            Err(_) | Ok(Ok(0)) => return Ok(None),
            Ok(Err(error)) => return Err(ReadError::Broken(error)),
            Ok(Ok(_)) => {}
        }
    }
    match timeout(whole, rest_of_head(incoming)).await {
        Ok(head) => head.map(Some),
        Err(_) => Err(ReadError::TooSlow),
    }
}

async fn rest_of_head(incoming: &mut Incoming) -> Result<Vec<u8>, ReadError> {
    let mut looked_at = 0;
    loop {
        let held = incoming.held();
        if let Some(end) = head_end(held, looked_at)? {
            let head = held[..end].to_vec();
            incoming.used(end);
            return Ok(head);
        }
        looked_at = held.len();
        match incoming.fill().await {
            Ok(0) => return Err(ReadError::Ended),
            Ok(_) => {}
            Err(error) => return Err(ReadError::Broken(error)),
        }
    }
}
