//! The content of files in a stream: extents of data, with holes between them.

use std::io::{Read, Write};

use super::record::{refused, stream};
use crate::{ArchiveError, Refusal};

/// The maximum length of one extent.
pub const MAX_EXTENT_BYTES: usize = 1 << 20;

/// The maximum length of a chunk, which is data without a hole that has one hash.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;
/// The length of the hash of a chunk.
pub const HASH_BYTES: usize = 32;

/// Whether an extent belongs to the chunk of `bytes` bytes that ends at `end`. Every user of chunks
/// cuts files by this rule, so that the same content has the same hashes.
pub fn is_same_chunk(end: u64, bytes: usize, extent: Extent) -> bool {
    bytes > 0 && extent.offset == end && bytes + extent.bytes <= MAX_CHUNK_BYTES
}

/// Writes the hash of a chunk.
pub fn write_chunk(
    offset: u64,
    bytes: usize,
    hash: &[u8; HASH_BYTES],
    output: &mut impl Write,
) -> std::io::Result<()> {
    let mut head = [0; 12 + HASH_BYTES];
    let length = u32::try_from(bytes).expect("a chunk is short");
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..12].copy_from_slice(&offset.to_le_bytes());
    head[12..].copy_from_slice(hash);
    output.write_all(&head)
}

/// A part of a file with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it starts.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: usize,
}

/// Writes an extent, which is not empty.
pub fn write_extent(offset: u64, data: &[u8], output: &mut impl Write) -> std::io::Result<()> {
    let length = u32::try_from(data.len()).expect("an extent is short");
    let mut head = [0; 12];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&offset.to_le_bytes());
    output.write_all(&head)?;
    output.write_all(data)
}

/// Writes the end of the content of a file.
pub fn end_content(output: &mut impl Write) -> std::io::Result<()> {
    output.write_all(&[0; 4])
}

/// Reads the next extent of a file of `size` bytes into a buffer; `None` is the end. `end` is where
/// the extent before ended.
pub fn read_extent(
    source: &mut impl Read,
    size: u64,
    end: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<Extent>, ArchiveError> {
    let mut length = [0; 4];
    source.read_exact(&mut length).map_err(stream)?;
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes == 0 {
        return Ok(None);
    }
    let mut offset = [0; 8];
    source.read_exact(&mut offset).map_err(stream)?;
    let offset = u64::from_le_bytes(offset);
    let is_inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= size);
    if bytes > MAX_EXTENT_BYTES || offset < end || !is_inside {
        return Err(refused(b"", Refusal::Damaged));
    }
    buffer.resize(bytes, 0);
    source.read_exact(buffer).map_err(stream)?;
    Ok(Some(Extent { offset, bytes }))
}
