//! Checkpoints as single files.
//!
//! ```text
//! zstd ( tar ( checkpoint.json, then the blobs of the tree, then those of the files ) )
//! ```
//! A parcel is hostile: every name, length and hash is checked before anything is visible.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use crate::contents::walk;
use crate::error::file;
use crate::pack::MAX_BLOB_BYTES;
use crate::store::MAX_RECORD_BYTES;
use crate::{Checkpoint, Hash, Reference, Store, StoreError};

const RECORD: &str = "checkpoint.json";
/// The maximum size of the blobs of a tree in memory: a million entries have less.
const MAX_TREE_BYTES: usize = 512 << 20;
/// The maximum length of what follows the last blob.
const MOST_REST: u64 = 64 << 10;

/// Writes a checkpoint to a new file that only its owner can read: it holds what a program wrote.
/// The file has its name when it is complete.
pub fn export(store: &Store, checkpoint: &Checkpoint, target: &Path) -> Result<(), StoreError> {
    let failed = file("write", target);
    if target.symlink_metadata().is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let output = tempfile::Builder::new().prefix(".stockade-export-").tempfile_in(directory);
    let output = output.map_err(&failed)?;
    write(store, checkpoint, target, output.as_file())?;
    output.as_file().sync_all().map_err(&failed)?;
    output.persist_noclobber(target).map_err(|error| failed(error.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

fn write(
    store: &Store,
    checkpoint: &Checkpoint,
    target: &Path,
    output: &File,
) -> Result<(), StoreError> {
    let failed = file("write", target);
    let contents = store.contents(checkpoint)?;
    let mut encoder = zstd::Encoder::new(BufWriter::new(output), 3).map_err(&failed)?;
    encoder.include_checksum(true).map_err(&failed)?;
    let mut archive = tar::Builder::new(encoder);
    let record = serde_json::to_vec(checkpoint).map_err(|error| failed(error.into()))?;
    append(&mut archive, RECORD, &record).map_err(&failed)?;
    let mut sent = HashSet::new();
    for hash in checkpoint.tree.iter().filter(|hash| sent.insert(**hash)) {
        append(&mut archive, &name(*hash), &contents.blob(*hash)?).map_err(&failed)?;
    }
    let mut needed = Vec::new();
    contents.walk(|_, chunks| {
        needed.extend(chunks.iter().map(|chunk| chunk.hash).filter(|hash| sent.insert(*hash)));
        Ok(())
    })?;
    for hash in needed {
        append(&mut archive, &name(hash), &contents.blob(hash)?).map_err(&failed)?;
    }
    let encoder = archive.into_inner().map_err(&failed)?;
    encoder.finish().and_then(|mut rest| rest.flush()).map_err(failed)
}

/// Reads a checkpoint from a file into the store, under its own name or another.
pub fn import(
    store: &Store,
    source: &Path,
    name: Option<&Reference>,
) -> Result<Checkpoint, StoreError> {
    let opened = File::open(source).map_err(file("open", source))?;
    let decoder =
        zstd::Decoder::new(BufReader::new(opened)).map_err(|_| wrong("it is not zstd"))?;
    let mut archive = tar::Archive::new(decoder);
    let mut entries = archive.entries().map_err(|_| wrong("it is not a tar archive"))?;
    let first = entries.next().ok_or_else(|| wrong("it is empty"))?;
    let (path, text) = content(first, MAX_RECORD_BYTES as usize)?;
    if path != RECORD {
        return Err(wrong("it does not start with a checkpoint"));
    }
    let mut checkpoint: Checkpoint =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if checkpoint.version != Checkpoint::VERSION {
        return Err(wrong("it is of another version"));
    }
    checkpoint.imported = true;
    if let Some(name) = name {
        (checkpoint.session, checkpoint.name) = (name.session().into(), name.name().into());
    }
    store.check_free(&checkpoint.reference()?)?;
    let mut builder = store.build()?;
    let mut next = || -> Result<Option<(Hash, Vec<u8>)>, StoreError> {
        let Some(entry) = entries.next() else { return Ok(None) };
        let (path, blob) = content(entry, MAX_BLOB_BYTES)?;
        let hash = path.strip_prefix("blobs/").and_then(Hash::from_hex);
        let hash = hash.ok_or_else(|| wrong("it has an entry that is no blob"))?;
        match Hash::of(&blob) == hash {
            true => Ok(Some((hash, blob))),
            false => Err(wrong(format!("the blob {hash} is damaged"))),
        }
    };
    let mut tree = HashMap::new();
    let (mut waiting, mut size): (HashSet<Hash>, usize) =
        (checkpoint.tree.iter().copied().collect(), 0);
    while !waiting.is_empty() {
        let (hash, blob) = next()?.ok_or_else(|| wrong("a blob of its tree is missing"))?;
        size += blob.len();
        if !waiting.remove(&hash) || size > MAX_TREE_BYTES {
            return Err(wrong("its tree is not at its beginning, or too large"));
        }
        builder.put(blob.clone())?;
        tree.insert(hash, blob);
    }
    let (mut needed, mut entries_count, mut bytes) = (HashMap::new(), 0, 0);
    let missing = || wrong("a blob of its tree is missing");
    let blob = |hash: Hash| tree.get(&hash).cloned().ok_or_else(missing);
    walk(&checkpoint.tree, &blob, |record, chunks| {
        entries_count += u64::from(record.name().is_some());
        if let stockade_archive::tree::Record::Place { number, .. } = &record
            && usize::try_from(*number).is_ok_and(|number| number >= checkpoint.places.len())
        {
            return Err(wrong("it has a place without a path"));
        }
        for chunk in chunks {
            bytes += u64::from(chunk.bytes);
            needed.insert(chunk.hash, chunk.bytes);
        }
        Ok(())
    })?;
    (checkpoint.entries, checkpoint.bytes) = (entries_count, bytes);
    needed.retain(|hash, _| !tree.contains_key(hash));
    while let Some((hash, blob)) = next()? {
        match needed.remove(&hash) {
            Some(length) if length as usize == blob.len() => _ = builder.put(blob)?,
            _ => return Err(wrong("it has a blob that its tree does not name")),
        }
    }
    if !needed.is_empty() {
        return Err(wrong("a blob of a file is missing"));
    }
    // Only the end of the archive is left, and the checksum of the whole.
    let mut rest = archive.into_inner().take(MOST_REST + 1);
    match io::copy(&mut rest, &mut io::sink()) {
        Ok(length) if length <= MOST_REST => builder.publish(checkpoint),
        Ok(_) => Err(wrong("it has more after its end")),
        Err(_) => Err(wrong("its end is damaged")),
    }
}

fn wrong(reason: impl Into<String>) -> StoreError {
    StoreError::Parcel { reason: reason.into() }
}

fn name(hash: Hash) -> String {
    format!("blobs/{hash}")
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    archive.append_data(&mut header, name, bytes)
}

/// The name and the content of a plain file.
fn content<R: Read>(
    entry: io::Result<tar::Entry<'_, R>>,
    most: usize,
) -> Result<(String, Vec<u8>), StoreError> {
    let mut entry = entry.map_err(|_| wrong("it is damaged"))?;
    if entry.header().entry_type() != tar::EntryType::Regular || entry.size() > most as u64 {
        return Err(wrong("it has an entry that no export writes"));
    }
    let path = String::from_utf8(entry.path_bytes().into_owned());
    let path = path.map_err(|_| wrong("a name is not text"))?;
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|_| wrong("it ends early"))?;
    Ok((path, bytes))
}
