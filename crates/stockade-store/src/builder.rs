//! Makes a checkpoint out of a tree.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use stockade_archive::tree::{
    MAX_CHUNK_BYTES, MAX_EXTENT_BYTES, Order, Record, is_same_chunk, read_extent, write_chunk,
};

use crate::contents::Index;
use crate::error::{file, tree};
use crate::pack::{self, Located, MAGIC, MAX_BLOB_BYTES};
use crate::store::{Lock, Sharing, sync_directory};
use crate::{Checkpoint, Hash, Store, StoreError};

/// The level of compression: the fastest, because programs wait.
const LEVEL: i32 = 1;
/// How many blobs wait to be compressed.
const WAITING: usize = 8;

/// The limits of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of entries.
    pub entries: u64,
    /// The maximum number of bytes of content, without holes.
    pub bytes: u64,
}

impl Limits {
    /// The limit of every checkpoint.
    pub const MOST: Limits = Limits { entries: 1_000_000, bytes: 1 << 44 };
}

/// What a tree has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many entries.
    pub entries: u64,
    /// How many bytes of content, without holes.
    pub bytes: u64,
    /// The blobs of the tree.
    pub tree: Vec<Hash>,
}

/// A checkpoint that is being made. Dropping it leaves nothing that is visible.
pub struct Builder {
    store: Store,
    /// Keeps gc away from the blobs that the checkpoint will name.
    _lock: Lock,
    known: HashSet<Hash>,
    /// `None` once the pack is complete.
    packing: Option<Packing>,
}

/// The thread that compresses and writes.
struct Packing {
    blobs: SyncSender<(Hash, Vec<u8>)>,
    written: JoinHandle<Result<Written, StoreError>>,
    path: PathBuf,
}

struct Written {
    index: Vec<(Hash, Located)>,
    bytes: u64,
    file: File,
}

impl Store {
    /// Starts a checkpoint.
    pub fn build(&self) -> Result<Builder, StoreError> {
        let lock = self.lock(Sharing::Shared)?;
        let index = Index::read(self)?;
        let left = self.quota.saturating_sub(index.bytes);
        let (new, path) = self.new_file()?;
        let (blobs, waiting) = sync_channel(WAITING);
        let (quota, at) = (self.quota, path.clone());
        let written = std::thread::Builder::new()
            .name("stockade-pack".to_owned())
            .spawn(move || write(waiting, new, &at, left, quota));
        let written = written.map_err(file("start a thread for", &path))?;
        Ok(Builder {
            store: self.clone(),
            _lock: lock,
            known: index.hashes(),
            packing: Some(Packing { blobs, written, path }),
        })
    }
}

impl Store {
    /// Writes blobs that stay into a pack, and returns its path and size. A pack with the same
    /// blobs has the same path.
    pub(crate) fn repack(&self, blobs: Vec<(Hash, Vec<u8>)>) -> Result<(PathBuf, u64), StoreError> {
        let (new, path) = self.new_file()?;
        let written = write(blobs, new, &path, u64::MAX, self.quota)?;
        Ok((self.finish_pack(&path, &written)?, written.bytes))
    }

    /// Completes a pack, and makes it durable before it is visible.
    fn finish_pack(&self, path: &Path, written: &Written) -> Result<PathBuf, StoreError> {
        let (end, name) = pack::finish(&written.index);
        let mut output = &written.file;
        let done = output.write_all(&end).and_then(|()| written.file.sync_data());
        let directory = self.directory.join("packs");
        let target = directory.join(format!("{name}.pack"));
        if let Err(error) = done.and_then(|()| fs::rename(path, &target)) {
            let _ = fs::remove_file(path);
            return Err(file("write", &target)(error));
        }
        sync_directory(&directory)?;
        Ok(target)
    }
}

impl Builder {
    /// Adds a tree as a sandbox sends it.
    pub fn add(&mut self, source: &mut impl Read, limits: Limits) -> Result<Summary, StoreError> {
        let mut order = Order::default();
        let mut summary = Summary::default();
        let mut lines = Vec::new();
        loop {
            let record = Record::decode(source).map_err(tree)?;
            order.check(&record, limits.entries).map_err(|error| match order.entries() {
                entries if entries > limits.entries => {
                    StoreError::TooManyEntries { most: limits.entries }
                }
                _ => tree(error),
            })?;
            record.encode(&mut lines);
            match record {
                Record::File(head) => {
                    let left = limits.bytes - summary.bytes;
                    summary.bytes += self.content(source, head.size, left, &mut lines)?;
                }
                Record::End => {
                    self.flush(&mut lines, 0, &mut summary)?;
                    summary.entries = order.entries();
                    return Ok(summary);
                }
                _ => {}
            }
            self.flush(&mut lines, MAX_BLOB_BYTES, &mut summary)?;
        }
    }

    /// Adds a blob, unless the store has it.
    pub fn put(&mut self, blob: Vec<u8>) -> Result<Hash, StoreError> {
        let hash = Hash::of(&blob);
        if !self.known.insert(hash) {
            return Ok(hash);
        }
        let packing = self.packing.as_ref().expect("the pack is open until publish");
        match packing.blobs.send((hash, blob)) {
            Ok(()) => Ok(hash),
            // The thread has failed.
            Err(_) => {
                Err(self.packed().err().unwrap_or(StoreError::Full { quota: self.store.quota }))
            }
        }
    }

    /// Makes the checkpoint durable, and then visible under its name.
    pub fn publish(mut self, mut checkpoint: Checkpoint) -> Result<Checkpoint, StoreError> {
        self.store.check_free(&checkpoint.reference()?)?;
        let Some((path, written)) = self.packed()? else {
            return Err(StoreError::Full { quota: self.store.quota });
        };
        checkpoint.stored_bytes = written.bytes;
        if written.index.is_empty() {
            let _ = fs::remove_file(&path);
        } else {
            self.store.finish_pack(&path, &written)?;
        }
        self.store.publish(&checkpoint)?;
        Ok(checkpoint)
    }

    /// Adds the content of a file, and appends its record of the tree.
    fn content(
        &mut self,
        source: &mut impl Read,
        size: u64,
        left: u64,
        lines: &mut Vec<u8>,
    ) -> Result<u64, StoreError> {
        let (mut buffer, mut blob) = (Vec::new(), Vec::new());
        let (mut start, mut end, mut bytes) = (0, 0, 0);
        while let Some(extent) = read_extent(source, size, end, &mut buffer).map_err(tree)? {
            bytes += extent.bytes as u64;
            if bytes > left {
                return Err(StoreError::TooManyBytes);
            }
            if !blob.is_empty() && !is_same_chunk(end, blob.len(), extent) {
                self.chunk(start, std::mem::take(&mut blob), lines)?;
            }
            if blob.is_empty() {
                start = extent.offset;
            }
            blob.extend_from_slice(&buffer);
            end = extent.offset + extent.bytes as u64;
        }
        if !blob.is_empty() {
            self.chunk(start, blob, lines)?;
        }
        lines.extend_from_slice(&0_u32.to_le_bytes());
        Ok(bytes)
    }

    fn chunk(&mut self, offset: u64, blob: Vec<u8>, lines: &mut Vec<u8>) -> Result<(), StoreError> {
        let bytes = blob.len();
        let hash = self.put(blob)?;
        write_chunk(offset, bytes, &hash.0, lines).expect("memory takes every byte");
        Ok(())
    }

    /// Moves complete blobs of the tree into the store; with `least` 0 also the last.
    fn flush(
        &mut self,
        lines: &mut Vec<u8>,
        least: usize,
        summary: &mut Summary,
    ) -> Result<(), StoreError> {
        while !lines.is_empty() && lines.len() >= least {
            let rest = lines.split_off(lines.len().min(MAX_BLOB_BYTES));
            let blob = std::mem::replace(lines, rest);
            summary.tree.push(self.put(blob)?);
        }
        Ok(())
    }

    /// Waits until all blobs are written. `None` if it was called before.
    fn packed(&mut self) -> Result<Option<(PathBuf, Written)>, StoreError> {
        let Some(Packing { blobs, written, path }) = self.packing.take() else { return Ok(None) };
        drop(blobs);
        let written = written.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match written {
            Ok(written) => Ok(Some((path, written))),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if let Ok(Some((path, _))) = self.packed() {
            let _ = fs::remove_file(path);
        }
    }
}

// One extent always fits into one chunk, and a chunk is a blob.
const _: () = assert!(MAX_EXTENT_BYTES <= MAX_CHUNK_BYTES && MAX_CHUNK_BYTES == MAX_BLOB_BYTES);

/// Compresses and writes blobs until their sender is dropped.
fn write(
    blobs: impl IntoIterator<Item = (Hash, Vec<u8>)>,
    new: File,
    path: &Path,
    left: u64,
    quota: u64,
) -> Result<Written, StoreError> {
    let failed = file("write", path);
    let mut output = BufWriter::with_capacity(256 << 10, new);
    output.write_all(&MAGIC).map_err(&failed)?;
    let (mut index, mut offset) = (Vec::new(), MAGIC.len() as u64);
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).map_err(&failed)?;
    for (hash, blob) in blobs {
        let compressed = compressor.compress(&blob).map_err(&failed)?;
        let stored = if compressed.len() < blob.len() { &compressed } else { &blob };
        if offset + stored.len() as u64 > left {
            return Err(StoreError::Full { quota });
        }
        output.write_all(stored).map_err(&failed)?;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a blob is short");
        index.push((hash, Located { offset, stored: length(stored), raw: length(&blob) }));
        offset += stored.len() as u64;
    }
    let file = output.into_inner().map_err(io::IntoInnerError::into_error).map_err(&failed)?;
    Ok(Written { index, bytes: offset - MAGIC.len() as u64, file })
}
