//! Pack files.
//!
//! ```text
//! MAGIC, blobs one after another, index, hash of the index, number of its entries, MAGIC
//! ```
//! A pack never changes. Its name is the hash of its index.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{damaged, file};
use crate::{Hash, StoreError};

pub(crate) const MAGIC: [u8; 16] = *b"stockade pack 1\n";
/// The maximum length of a blob.
pub(crate) const MAX_BLOB_BYTES: usize = 1 << 20;
/// The length of an entry of the index.
const ENTRY_BYTES: usize = Hash::BYTES + 16;
/// The length of what follows the index.
const TAIL_BYTES: usize = Hash::BYTES + 8 + MAGIC.len();

/// Where a blob is in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) offset: u64,
    /// Its length in the pack.
    pub(crate) stored: u32,
    /// Its own length. The same as `stored` if it is not compressed.
    pub(crate) raw: u32,
}

/// The end of a pack: its index, and its name.
pub(crate) fn finish(index: &[(Hash, Located)]) -> (Vec<u8>, Hash) {
    let mut bytes = Vec::with_capacity(index.len() * ENTRY_BYTES + TAIL_BYTES);
    for (hash, located) in index {
        bytes.extend_from_slice(&hash.0);
        bytes.extend_from_slice(&located.offset.to_le_bytes());
        bytes.extend_from_slice(&located.stored.to_le_bytes());
        bytes.extend_from_slice(&located.raw.to_le_bytes());
    }
    let name = Hash::of(&bytes);
    bytes.extend_from_slice(&name.0);
    bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    (bytes, name)
}

/// The index of an open pack.
pub(crate) fn index(pack: &File, path: &Path) -> Result<HashMap<Hash, Located>, StoreError> {
    let length = pack.metadata().map_err(file("read", path))?.len();
    let tail_at =
        length.checked_sub(TAIL_BYTES as u64).ok_or_else(|| damaged(path, "it is short"))?;
    let mut tail = [0; TAIL_BYTES];
    pack.read_exact_at(&mut tail, tail_at).map_err(file("read", path))?;
    let (hash, rest) = tail.split_at(Hash::BYTES);
    let (count, magic) = rest.split_at(8);
    let count = u64::from_le_bytes(count.try_into().expect("it has eight bytes"));
    let bytes = count.checked_mul(ENTRY_BYTES as u64).filter(|bytes| *bytes <= tail_at);
    let (Some(bytes), true) = (bytes, magic == MAGIC) else {
        return Err(damaged(path, "its end is not that of a pack"));
    };
    let start = tail_at - bytes;
    let mut index = vec![0; usize::try_from(bytes).map_err(|_| damaged(path, "it is too long"))?];
    pack.read_exact_at(&mut index, start).map_err(file("read", path))?;
    if Hash::of(&index).0 != *hash {
        return Err(damaged(path, "its index does not have the hash that it names"));
    }
    let mut located = HashMap::new();
    for entry in index.chunks_exact(ENTRY_BYTES) {
        let (hash, rest) = entry.split_first_chunk().expect("an entry starts with a hash");
        let number =
            |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        let offset = u64::from_le_bytes(rest[..8].try_into().expect("eight bytes"));
        let found = Located { offset, stored: number(8), raw: number(12) };
        let ends = offset.checked_add(u64::from(found.stored)).is_some_and(|end| end <= start);
        if !ends || found.raw as usize > MAX_BLOB_BYTES || found.stored > found.raw {
            return Err(damaged(path, "its index names a blob that it cannot have"));
        }
        located.insert(Hash(*hash), found);
    }
    Ok(located)
}

/// Reads a blob and checks its hash.
pub(crate) fn blob(
    pack: &File,
    path: &Path,
    hash: Hash,
    located: Located,
) -> Result<Vec<u8>, StoreError> {
    let mut stored = vec![0; located.stored as usize];
    pack.read_exact_at(&mut stored, located.offset).map_err(file("read", path))?;
    let wrong = || damaged(path, format!("the blob {hash} is not what was written"));
    let raw = match located.stored == located.raw {
        true => stored,
        false => {
            let mut raw = Vec::with_capacity(located.raw as usize);
            let decoder = zstd::Decoder::new(stored.as_slice()).map_err(file("read", path))?;
            // One byte more detects a blob that is longer than its header states.
            decoder.take(u64::from(located.raw) + 1).read_to_end(&mut raw).map_err(|_| wrong())?;
            raw
        }
    };
    match raw.len() == located.raw as usize && Hash::of(&raw) == hash {
        true => Ok(raw),
        false => Err(wrong()),
    }
}
