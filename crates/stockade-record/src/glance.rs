//! Reads the first and the last events of a stream without reading all of it.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::line::decode;
use crate::{Body, Event, ExecutionEnded, MAX_LINE_BYTES, ReadError, Reader, list};

/// The first and last events of a stream. Only `verify` checks the events between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The first event, if it is complete.
    pub first: Option<Event>,
    /// The last complete event.
    pub last: Option<Event>,
    /// The last end of an execution, if it is near the end of the stream.
    pub ended: Option<ExecutionEnded>,
}

/// Reads the first and last event of a stream.
pub fn glance(path: &Path) -> Result<Glance, ReadError> {
    let first = Reader::open(path)?.next()?;
    let unread = |source| ReadError::File { path: path.to_owned(), source };
    let mut file = list::open(path).map_err(unread)?;
    let length = file.seek(SeekFrom::End(0)).map_err(unread)?;
    // The last complete line and an incomplete one after it.
    let most = 2 * MAX_LINE_BYTES as u64;
    file.seek(SeekFrom::Start(length.saturating_sub(most))).map_err(unread)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(unread)?;
    let complete = |line: &&[u8]| line.ends_with(b"\n");
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').rev().filter(complete);
    let event = |line: &[u8]| decode(line).ok().map(|(event, _)| event);
    let last = lines.next().and_then(event);
    let before = lines.next().and_then(event);
    let ended = [&last, &before].into_iter().flatten().find_map(|event| match &event.body {
        Body::ExecutionEnded(ended) => Some(ended.clone()),
        _ => None,
    });
    Ok(Glance { first, last, ended })
}
