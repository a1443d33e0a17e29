//! The files of a place, as a program in the sandbox sees them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use stockade_archive::tree::{Metadata, Node, Record, Time};

use crate::contents::Chunk;
use crate::{Contents, HostBase, StoreError};

/// What an entry is.
#[derive(Clone, Debug)]
pub enum EntryKind {
    /// A directory. `replaces` hides what the base has below it.
    Directory {
        /// Whether it hides the base.
        replaces: bool,
    },
    /// A regular file.
    File(Content),
    /// A symbolic link with its target.
    Link(Vec<u8>),
    /// A special file.
    Special(Node),
    /// Something that cannot be compared, such as a device of the host.
    Other,
}

/// An entry with its metadata.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Its permission bits.
    pub mode: u32,
    /// When it was modified.
    pub modified: Time,
}

/// The content of a regular file.
#[derive(Clone, Debug)]
pub enum Content {
    /// In the store.
    Stored {
        /// Its length, holes included.
        size: u64,
        /// The parts with data.
        chunks: Chunks,
    },
    /// On the host.
    Host {
        /// The open file.
        file: Arc<std::fs::File>,
        /// Its length.
        size: u64,
    },
}

/// The parts of a file that have data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks(pub(crate) Arc<[Chunk]>);

/// The files of a place: the entries of a tree over what a directory of the host has.
pub struct View<'c> {
    contents: Option<&'c Contents>,
    /// By their paths below the place; `None` is a deletion.
    entries: BTreeMap<Vec<u8>, Option<TreeEntry>>,
    base: Option<&'c HostBase>,
}

impl Content {
    /// The length.
    pub fn size(&self) -> u64 {
        match self {
            Content::Stored { size, .. } | Content::Host { size, .. } => *size,
        }
    }
}

impl<'c> View<'c> {
    /// Only the base.
    pub fn empty(base: Option<&'c HostBase>) -> View<'c> {
        View { contents: None, entries: BTreeMap::new(), base }
    }

    /// A place of a checkpoint by its number.
    pub fn of(
        contents: &'c Contents,
        place: u32,
        base: Option<&'c HostBase>,
    ) -> Result<View<'c>, StoreError> {
        let mut entries = BTreeMap::new();
        let mut files = BTreeMap::new();
        let (mut is_here, mut above) = (false, Vec::<usize>::new());
        let mut path = Vec::new();
        contents.walk(|record, chunks| {
            if let Record::Place { number, .. } = record {
                is_here = number == place;
                (above, path) = (Vec::new(), Vec::new());
                return Ok(());
            }
            if let Record::Leave = record {
                path.truncate(above.pop().unwrap_or(0));
                return Ok(());
            }
            let Some(name) = record.name() else { return Ok(()) };
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let entry = match record {
                Record::Deleted { .. } => None,
                Record::Enter { metadata, replaces, .. } => {
                    above.push(length);
                    let kind = EntryKind::Directory { replaces };
                    if is_here {
                        entries.insert(path.clone(), Some(entry(kind, &metadata)));
                    }
                    return Ok(());
                }
                Record::File(head) => {
                    let chunks = Chunks(chunks.into());
                    let content = Content::Stored { size: head.size, chunks };
                    let entry = entry(EntryKind::File(content), &head.metadata);
                    if let Some(link) = head.link {
                        files.insert(link, entry.clone());
                    }
                    Some(entry)
                }
                Record::HardLink { link, .. } => files.get(&link).cloned(),
                Record::Link { target, modified, .. } => {
                    Some(TreeEntry { kind: EntryKind::Link(target), mode: 0o777, modified })
                }
                Record::Node { kind, metadata, .. } => {
                    Some(entry(EntryKind::Special(kind), &metadata))
                }
                Record::Place { .. } | Record::Leave | Record::End => return Ok(()),
            };
            if is_here {
                entries.insert(path.clone(), entry);
            }
            path.truncate(length);
            Ok(())
        })?;
        Ok(View { contents: Some(contents), entries, base })
    }

    /// What is at a path.
    pub fn get(&self, path: &[u8]) -> Result<Option<TreeEntry>, StoreError> {
        if let Some(entry) = self.entries.get(path) {
            return Ok(entry.clone());
        }
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            match self.entries.get(&path[..at]) {
                None => {}
                Some(Some(TreeEntry {
                    kind: EntryKind::Directory { replaces: false }, ..
                })) => {}
                // Nothing of the base is below it.
                Some(_) => return Ok(None),
            }
        }
        self.base.map_or(Ok(None), |base| base.get(path))
    }

    /// The paths that may differ from the base.
    pub(crate) fn paths(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut paths = Vec::new();
        for (path, entry) in &self.entries {
            paths.push(path.clone());
            let merges = matches!(
                entry,
                Some(TreeEntry { kind: EntryKind::Directory { replaces: false }, .. })
            );
            if let (false, Some(base)) = (merges, self.base) {
                base.below(path, &mut paths)?;
            }
        }
        Ok(paths)
    }

    /// Reads a part of a file into the whole buffer, which does not reach beyond its end.
    pub(crate) fn read(
        &self,
        content: &Content,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), StoreError> {
        match content {
            Content::Host { file, .. } => {
                use std::os::unix::fs::FileExt;
                let failed = |source: io::Error| StoreError::File {
                    doing: "read a file of",
                    path: self.base.map(|base| base.path().to_owned()).unwrap_or_default(),
                    source,
                };
                file.read_exact_at(buffer, offset).map_err(failed)
            }
            Content::Stored { chunks, .. } => {
                buffer.fill(0);
                let end = offset + buffer.len() as u64;
                for chunk in chunks.0.iter() {
                    let chunk_end = chunk.offset + u64::from(chunk.bytes);
                    if chunk_end <= offset || chunk.offset >= end {
                        continue;
                    }
                    let contents = self.contents.expect("stored content has a store");
                    let data = contents.blob(chunk.hash)?;
                    let from = chunk.offset.max(offset);
                    let count = usize::try_from(chunk_end.min(end) - from).unwrap_or(0);
                    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                    let source = data.get(place(from - chunk.offset)..).unwrap_or_default();
                    let target = &mut buffer[place(from - offset)..][..count];
                    let count = count.min(source.len());
                    target[..count].copy_from_slice(&source[..count]);
                }
                Ok(())
            }
        }
    }

    /// The whole content of a file, if it has at most so many bytes.
    pub(crate) fn whole(
        &self,
        content: &Content,
        most: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if content.size() > most {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(content.size()).unwrap_or(0)];
        self.read(content, 0, &mut bytes)?;
        Ok(Some(bytes))
    }

    pub(crate) fn blob(&self, chunk: &Chunk) -> Result<Vec<u8>, StoreError> {
        self.contents.expect("stored content has a store").blob(chunk.hash)
    }
}

/// Whether two files of two views have the same bytes.
pub(crate) fn same_content(
    (one, a): (&View<'_>, &Content),
    (other, b): (&View<'_>, &Content),
) -> Result<bool, StoreError> {
    const PIECE: u64 = 1 << 20;
    if a.size() != b.size() {
        return Ok(false);
    }
    if let (Content::Stored { chunks: a, .. }, Content::Stored { chunks: b, .. }) = (a, b)
        && a == b
    {
        return Ok(true);
    }
    let (mut offset, size) = (0, a.size());
    while offset < size {
        let length = usize::try_from(PIECE.min(size - offset)).expect("a piece is short");
        let (mut left, mut right) = (vec![0; length], vec![0; length]);
        one.read(a, offset, &mut left)?;
        other.read(b, offset, &mut right)?;
        if left != right {
            return Ok(false);
        }
        offset += length as u64;
    }
    Ok(true)
}

fn entry(kind: EntryKind, metadata: &Metadata) -> TreeEntry {
    TreeEntry { kind, mode: metadata.mode, modified: metadata.modified }
}
