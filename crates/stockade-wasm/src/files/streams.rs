//! Reading and writing a file of the tree as streams.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::Fault;
use super::node::Node;

/// The most bytes of one read or write.
const MAX_PIECE: usize = 1 << 20;

/// Reads a file from an offset on.
pub(super) struct FileReader {
    node: Arc<Node>,
    offset: u64,
}

impl FileReader {
    pub(super) fn new(node: Arc<Node>, offset: u64) -> FileReader {
        FileReader { node, offset }
    }
}

#[async_trait]
impl Pollable for FileReader {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for FileReader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.node.read(self.offset, size.min(MAX_PIECE)).map_err(failed)?;
        if bytes.is_empty() && size > 0 {
            return Err(StreamError::Closed);
        }
        self.offset += u64::try_from(bytes.len()).expect("usize has at most 64 bits");
        Ok(Bytes::from(bytes))
    }
}

/// Writes a file from an offset on, or at its end.
pub(super) struct FileWriter {
    node: Arc<Node>,
    offset: Option<u64>,
}

impl FileWriter {
    pub(super) fn new(node: Arc<Node>, offset: Option<u64>) -> FileWriter {
        FileWriter { node, offset }
    }
}

#[async_trait]
impl Pollable for FileWriter {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for FileWriter {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.node.write(self.offset, &bytes).map_err(failed)?;
        if let Some(offset) = &mut self.offset {
            *offset += u64::try_from(bytes.len()).expect("usize has at most 64 bits");
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_PIECE)
    }
}

/// A failure whose code a program can ask for.
fn failed(fault: Fault) -> StreamError {
    StreamError::LastOperationFailed(io::Error::from(fault).into())
}
