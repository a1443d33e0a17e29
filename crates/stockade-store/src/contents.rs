//! Reads the files of a checkpoint.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use stockade_archive::tree::{Order, Record, end_content, write_extent};
use stockade_archive::{ArchiveError, Refusal};

use crate::error::{damaged, file, tree};
use crate::pack::{self, Located, MAX_BLOB_BYTES};
use crate::store::{Lock, Sharing};
use crate::{Checkpoint, Hash, Limits, Store, StoreError};

/// The blobs of all packs.
pub(crate) struct Index {
    pub(crate) packs: Vec<(PathBuf, File, HashMap<Hash, Located>)>,
    /// The size of all packs.
    pub(crate) bytes: u64,
}

impl Index {
    /// Reads the index of every pack. The caller holds the lock.
    pub(crate) fn read(store: &Store) -> Result<Index, StoreError> {
        let (mut packs, mut bytes) = (Vec::new(), 0);
        for path in store.packs()? {
            let opened = File::open(&path).map_err(file("open", &path))?;
            bytes += opened.metadata().map_err(file("read", &path))?.len();
            let index = pack::index(&opened, &path)?;
            packs.push((path, opened, index));
        }
        Ok(Index { packs, bytes })
    }

    pub(crate) fn hashes(&self) -> HashSet<Hash> {
        self.packs.iter().flat_map(|(_, _, index)| index.keys().copied()).collect()
    }

    /// Reads a blob; `None` if no pack has it.
    pub(crate) fn blob(&self, hash: Hash) -> Result<Option<Vec<u8>>, StoreError> {
        for (path, opened, index) in &self.packs {
            if let Some(located) = index.get(&hash) {
                return pack::blob(opened, path, hash, *located).map(Some);
            }
        }
        Ok(None)
    }
}

/// A part of a file that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) hash: Hash,
}

/// The files of a checkpoint. The store keeps them as long as this value lives.
pub struct Contents {
    index: Index,
    tree: Vec<Hash>,
    store: PathBuf,
    _lock: Option<Lock>,
}

impl Store {
    /// Opens the files of a checkpoint.
    pub fn contents(&self, checkpoint: &Checkpoint) -> Result<Contents, StoreError> {
        let lock = self.lock(Sharing::Shared)?;
        // It may have been removed, and its blobs collected, since the caller read it.
        self.checkpoint(&checkpoint.reference()?)?;
        Ok(Contents { _lock: Some(lock), ..Contents::unlocked(self, checkpoint)? })
    }
}

impl Contents {
    /// The same for a caller that holds the lock.
    pub(crate) fn unlocked(store: &Store, checkpoint: &Checkpoint) -> Result<Contents, StoreError> {
        let index = Index::read(store)?;
        let (tree, store) = (checkpoint.tree.clone(), store.directory.clone());
        Ok(Contents { index, tree, store, _lock: None })
    }

    /// Sends the tree to a sandbox whose places have these numbers, by the numbers here.
    pub fn send(&self, numbers: &[u32], output: &mut impl Write) -> Result<(), StoreError> {
        self.walk(|record, chunks| self.write(&self.numbered(record, numbers)?, chunks, output))?;
        output.flush().map_err(|source| tree(ArchiveError::Stream { source }))
    }

    /// A record whose place has its number in the sandbox.
    pub(crate) fn numbered(
        &self,
        mut record: Record,
        numbers: &[u32],
    ) -> Result<Record, StoreError> {
        if let Record::Place { number, .. } = &mut record {
            let own = usize::try_from(*number).ok().and_then(|own| numbers.get(own));
            *number = *own.ok_or_else(|| damaged(&self.store, "a place has no number"))?;
        }
        Ok(record)
    }

    /// Writes a record with its content.
    pub(crate) fn write(
        &self,
        record: &Record,
        chunks: &[Chunk],
        output: &mut impl Write,
    ) -> Result<(), StoreError> {
        let failed = |source| tree(ArchiveError::Stream { source });
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        output.write_all(&bytes).map_err(failed)?;
        if let Record::File(_) = record {
            for chunk in chunks {
                let data = self.blob(chunk.hash)?;
                if data.len() != chunk.bytes as usize {
                    return Err(damaged(&self.store, "a blob has another length"));
                }
                write_extent(chunk.offset, &data, output).map_err(failed)?;
            }
            end_content(output).map_err(failed)?;
        }
        Ok(())
    }

    /// Reads a blob.
    pub(crate) fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        let missing = || damaged(&self.store, format!("the blob {hash} is missing"));
        self.index.blob(hash)?.ok_or_else(missing)
    }

    /// Visits every record of the tree, with the parts of its content.
    pub(crate) fn walk(
        &self,
        visit: impl FnMut(Record, &[Chunk]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        walk(&self.tree, &|hash| self.blob(hash), visit)
    }
}

/// Visits every record of a tree, whose blobs `blob` reads.
pub(crate) fn walk(
    blobs: &[Hash],
    blob: &dyn Fn(Hash) -> Result<Vec<u8>, StoreError>,
    visit: impl FnMut(Record, &[Chunk]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut source = Blobs { read: blob, next: blobs.iter(), blob: Vec::new(), at: 0 };
    walk_records(&mut source, Limits::MOST.entries, visit)
}

/// Visits every record of a stream with hashes in place of content.
pub(crate) fn walk_records(
    source: &mut impl Read,
    most: u64,
    mut visit: impl FnMut(Record, &[Chunk]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut order = Order::default();
    let mut chunks = Vec::new();
    loop {
        let record = Record::decode(source).map_err(tree)?;
        order.check(&record, most).map_err(tree)?;
        chunks.clear();
        if let Record::File(head) = &record {
            read_chunks(source, head.size, &mut chunks)?;
        }
        let is_end = record == Record::End;
        visit(record, &chunks)?;
        if is_end {
            return Ok(());
        }
    }
}

fn read_chunks(
    source: &mut impl Read,
    size: u64,
    chunks: &mut Vec<Chunk>,
) -> Result<(), StoreError> {
    let failed = |source| tree(ArchiveError::Stream { source });
    let mut end = 0;
    loop {
        let mut length = [0; 4];
        source.read_exact(&mut length).map_err(failed)?;
        let bytes = u32::from_le_bytes(length);
        if bytes == 0 {
            return Ok(());
        }
        let (mut offset, mut hash) = ([0; 8], [0; Hash::BYTES]);
        source.read_exact(&mut offset).map_err(failed)?;
        source.read_exact(&mut hash).map_err(failed)?;
        let offset = u64::from_le_bytes(offset);
        let last = offset.checked_add(u64::from(bytes)).filter(|last| *last <= size);
        let (Some(last), true) = (last, offset >= end && bytes as usize <= MAX_BLOB_BYTES) else {
            let (name, refusal) = (Vec::new(), Refusal::Damaged);
            return Err(tree(ArchiveError::Refused { name, refusal }));
        };
        end = last;
        chunks.push(Chunk { offset, bytes, hash: Hash(hash) });
    }
}

/// The blobs of a tree as one sequence of bytes.
struct Blobs<'c> {
    read: &'c dyn Fn(Hash) -> Result<Vec<u8>, StoreError>,
    next: std::slice::Iter<'c, Hash>,
    blob: Vec<u8>,
    at: usize,
}

impl Read for Blobs<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.blob.len() {
            let Some(hash) = self.next.next() else { return Ok(0) };
            self.blob = (self.read)(*hash).map_err(io::Error::other)?;
            self.at = 0;
        }
        let taken = buffer.len().min(self.blob.len() - self.at);
        buffer[..taken].copy_from_slice(&self.blob[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}
