//! What differs between the files of a sandbox and a checkpoint.
//!
//! ```text
//! tree of the checkpoint ──┐
//!                          ├─ same names, kinds, metadata and hashes: left out ──▶ delta
//! digest of the sandbox  ──┘
//! ```
//! A delta is a tree with only the entries that differ, and the deletions. Its cost is that of the
//! differences; finding them reads every file, inside, because nothing cheaper than its content
//! proves that a file is the same: a program can set times of modification, and a write through a
//! mapping of a tmpfs file changes no time at all.

use std::io::{Read, Write};
use std::iter::Peekable;
use std::mem::{discriminant, take};
use std::vec::IntoIter;

use stockade_archive::ArchiveError;
use stockade_archive::tree::{FileHead, Metadata, Record};

use crate::contents::{Chunk, walk_records};
use crate::error::tree;
use crate::{Contents, StoreError};

/// The maximum number of entries on each side, which are in memory.
const MAX_ENTRIES: u64 = 200_000;
/// The maximum depth on each side: comparing recurses, and a thread's stack is small.
const MAX_COMPARED_DEPTH: usize = 128;
/// The maximum length of a digest: hostile attributes are long.
const MAX_DIGEST_BYTES: u64 = 256 << 20;
/// The bits of a mode that filling sets.
const COMPARED_MODE: u32 = 0o1777;

/// What differs, in the form that a sandbox writes.
#[derive(Debug)]
pub struct Delta {
    records: Vec<(Record, Vec<Chunk>)>,
}

/// An entry with what is below it.
#[derive(Debug)]
struct Node {
    record: Record,
    chunks: Vec<Chunk>,
    inner: Vec<Node>,
}

/// Why files are better written into a fresh sandbox.
#[derive(Debug)]
enum Unfit {
    /// The sandbox cannot undo the difference where the files are.
    Fresh,
    Store(StoreError),
}

impl Contents {
    /// What a sandbox must change to have these files, from the digest that it sends. `numbers` are
    /// those of its places. `None` if it cannot become so by changes.
    pub fn delta(
        &self,
        numbers: &[u32],
        current: &mut impl Read,
    ) -> Result<Option<Delta>, StoreError> {
        match self.compare(numbers, current) {
            Ok(delta) => Ok(Some(delta)),
            Err(Unfit::Fresh) => Ok(None),
            Err(Unfit::Store(error)) => Err(error),
        }
    }

    /// Reads all content of a delta, so that damage is found before anything is written.
    pub fn check_delta(&self, delta: &Delta) -> Result<(), StoreError> {
        delta
            .records
            .iter()
            .try_for_each(|(record, chunks)| self.write(record, chunks, &mut std::io::sink()))
    }

    /// Sends a delta to the sandbox.
    pub fn send_delta(&self, delta: &Delta, output: &mut impl Write) -> Result<(), StoreError> {
        for (record, chunks) in &delta.records {
            self.write(record, chunks, output)?;
        }
        output.flush().map_err(|source| tree(ArchiveError::Stream { source }))
    }

    fn compare(&self, numbers: &[u32], current: &mut impl Read) -> Result<Delta, Unfit> {
        let mut wanted = Builder::default();
        self.walk(|record, chunks| {
            wanted.add(self.numbered(record, numbers)?, chunks);
            Ok(())
        })?;
        let mut found = Builder::default();
        let mut current = current.take(MAX_DIGEST_BYTES);
        walk_records(&mut current, MAX_ENTRIES, |record, chunks| {
            found.add(record, chunks);
            Ok(())
        })?;
        if wanted.entries > MAX_ENTRIES || wanted.depth.max(found.depth) > MAX_COMPARED_DEPTH {
            return Err(Unfit::Fresh);
        }
        let (wanted, found) = (wanted.places, found.places);
        let has_links = |places: &[Node]| places.iter().any(Node::has_links);
        let mut comparison = Comparison {
            // Files with several names are the same as before only all together.
            links_differ: (has_links(&wanted) || has_links(&found))
                && links(&wanted) != links(&found),
            is_overlay: false,
            records: Vec::new(),
        };
        comparison.places(wanted, found)?;
        Ok(Delta { records: comparison.records })
    }
}

impl Delta {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.records.iter().all(|(record, _)| *record == Record::End)
    }

    /// How many entries it has: those that differ, and the directories above them.
    pub fn entries(&self) -> usize {
        self.records.iter().filter(|(record, _)| record.name().is_some()).count()
    }

    /// How many bytes of content they have.
    pub fn bytes(&self) -> u64 {
        let chunks = self.records.iter().flat_map(|(_, chunks)| chunks);
        chunks.map(|chunk| u64::from(chunk.bytes)).sum()
    }
}

/// Collects records into trees.
#[derive(Default)]
struct Builder {
    places: Vec<Node>,
    /// The open directories below the last place.
    open: Vec<Node>,
    entries: u64,
    /// The most directories that were open at once.
    depth: usize,
}

impl Builder {
    fn add(&mut self, record: Record, chunks: &[Chunk]) {
        let node = Node { record, chunks: chunks.to_vec(), inner: Vec::new() };
        self.entries += 1;
        match &node.record {
            Record::Place { .. } => self.places.push(node),
            Record::Enter { .. } => {
                self.open.push(node);
                self.depth = self.depth.max(self.open.len());
            }
            Record::Leave => {
                if let Some(node) = self.open.pop() {
                    self.put(node);
                }
            }
            Record::End => {}
            _ => self.put(node),
        }
    }

    fn put(&mut self, node: Node) {
        if let Some(above) = self.open.last_mut().or(self.places.last_mut()) {
            above.inner.push(node);
        }
    }
}

impl Node {
    fn name(&self) -> &[u8] {
        self.record.name().unwrap_or_default()
    }

    fn has_links(&self) -> bool {
        is_linked(&self.record) || self.inner.iter().any(Node::has_links)
    }
}

/// Whether a file has several names.
fn is_linked(record: &Record) -> bool {
    matches!(record, Record::HardLink { .. } | Record::File(FileHead { link: Some(_), .. }))
}

/// Every name of files with several names: its path, and what has the name. The numbers of links
/// are in the order of the paths, so equal trees have equal numbers.
fn links(places: &[Node]) -> Vec<(Vec<u8>, Record, Vec<Chunk>)> {
    fn visit(node: &Node, path: &[u8], found: &mut Vec<(Vec<u8>, Record, Vec<Chunk>)>) {
        let path = [path, b"/", node.name()].concat();
        if is_linked(&node.record) {
            found.push((path, plain(&node.record), node.chunks.clone()));
            return;
        }
        node.inner.iter().for_each(|inner| visit(inner, &path, found));
    }
    let mut found = Vec::new();
    for (number, place) in places.iter().enumerate() {
        visit(place, number.to_string().as_bytes(), &mut found);
    }
    found
}

/// A record without what filling does not set.
fn plain(record: &Record) -> Record {
    let mut record = record.clone();
    match &mut record {
        Record::Place { metadata, .. }
        | Record::Enter { metadata, .. }
        | Record::Node { metadata, .. }
        | Record::File(FileHead { metadata, .. }) => metadata.mode &= COMPARED_MODE,
        Record::Link { .. }
        | Record::HardLink { .. }
        | Record::Deleted { .. }
        | Record::Leave
        | Record::End => {}
    }
    record
}

struct Comparison {
    links_differ: bool,
    /// Whether the current place has only changes of a directory of the host.
    is_overlay: bool,
    records: Vec<(Record, Vec<Chunk>)>,
}

impl Comparison {
    fn places(&mut self, wanted: Vec<Node>, found: Vec<Node>) -> Result<(), Unfit> {
        if wanted.len() != found.len() {
            return Err(Unfit::Fresh);
        }
        for (place, other) in wanted.into_iter().zip(found) {
            let (number, changes) = place_of(&place);
            if place_of(&other) != (number, changes) {
                return Err(Unfit::Fresh);
            }
            self.is_overlay = changes;
            // Deletions are allowed only in a place of changes.
            let Record::Place { metadata, .. } = &place.record else { return Err(Unfit::Fresh) };
            let metadata = metadata.clone();
            let record = Record::Place { number, changes: true, metadata };
            self.directory(record, place, other)?;
        }
        self.records.push((Record::End, Vec::new()));
        Ok(())
    }

    /// Compares directories that both sides have.
    fn directory(&mut self, record: Record, wanted: Node, found: Node) -> Result<(), Unfit> {
        let is_same = plain(&wanted.record) == plain(&found.record);
        let (old, new) = (metadata_of(&found.record), metadata_of(&wanted.record));
        // Filling a directory removes no attribute.
        if old.map(|it| &it.attributes) != new.map(|it| &it.attributes) {
            return Err(Unfit::Fresh);
        }
        let has_attributes = new.is_some_and(|it| !it.attributes.is_empty());
        let is_place = matches!(record, Record::Place { .. });
        let start = self.records.len();
        self.records.push((record, Vec::new()));
        self.entries(wanted.inner, found.inner)?;
        let is_changed = self.records.len() > start + 1;
        if is_changed && has_attributes {
            // What is made in it would inherit an access list.
            return Err(Unfit::Fresh);
        }
        if !is_changed && is_same {
            self.records.truncate(start);
        } else if !is_place {
            self.records.push((Record::Leave, Vec::new()));
        }
        Ok(())
    }

    fn entries(&mut self, wanted: Vec<Node>, found: Vec<Node>) -> Result<(), Unfit> {
        let mut found = found.into_iter().peekable();
        for node in wanted {
            self.remove_before(node.name(), &mut found)?;
            match found.next_if(|other| other.name() == node.name()) {
                Some(other) => self.entry(node, other)?,
                None => self.whole(node),
            }
        }
        found.try_for_each(|node| self.remove(node))
    }

    fn remove_before(
        &mut self,
        name: &[u8],
        found: &mut Peekable<IntoIter<Node>>,
    ) -> Result<(), Unfit> {
        while let Some(node) = found.next_if(|node| node.name() < name) {
            self.remove(node)?;
        }
        Ok(())
    }

    fn remove(&mut self, node: Node) -> Result<(), Unfit> {
        if self.is_overlay {
            // The host's directory may have something below the change, which would be hidden.
            return Err(Unfit::Fresh);
        }
        let mut record = node.record;
        let name = match &mut record {
            Record::Enter { name, .. }
            | Record::Link { name, .. }
            | Record::HardLink { name, .. }
            | Record::Node { name, .. }
            | Record::Deleted { name } => take(name),
            Record::File(head) => take(&mut head.name),
            Record::Place { .. } | Record::Leave | Record::End => return Ok(()),
        };
        self.records.push((Record::Deleted { name }, Vec::new()));
        Ok(())
    }

    /// Compares entries of the same name.
    fn entry(&mut self, wanted: Node, found: Node) -> Result<(), Unfit> {
        if let (Record::Enter { replaces, .. }, Record::Enter { replaces: old, .. }) =
            (&wanted.record, &found.record)
        {
            if replaces != old {
                return Err(Unfit::Fresh);
            }
            let mut record = wanted.record.clone();
            if let Record::Enter { replaces, .. } = &mut record {
                // It stays, with what is not in the delta.
                *replaces = false;
            }
            return self.directory(record, wanted, found);
        }
        let is_kind = discriminant(&wanted.record) == discriminant(&found.record);
        if self.is_overlay && !is_kind && matches!(wanted.record, Record::Enter { .. }) {
            // A directory made in place of another entry would hide that of the host.
            return Err(Unfit::Fresh);
        }
        let is_same = is_kind && is_same(&wanted, &found);
        let is_linked = is_linked(&wanted.record) || is_linked(&found.record);
        if !is_same || is_linked && self.links_differ {
            self.whole(wanted);
        }
        Ok(())
    }

    /// Adds an entry with everything below it.
    fn whole(&mut self, node: Node) {
        let is_directory = matches!(node.record, Record::Enter { .. });
        self.records.push((node.record, node.chunks));
        node.inner.into_iter().for_each(|inner| self.whole(inner));
        if is_directory {
            self.records.push((Record::Leave, Vec::new()));
        }
    }
}

/// Whether two entries are the same, apart from the numbers of their links, which are compared for
/// all together.
fn is_same(wanted: &Node, found: &Node) -> bool {
    let unnumbered = |node: &Node| {
        let mut record = plain(&node.record);
        match &mut record {
            Record::File(head) => head.link = head.link.map(|_| 0),
            Record::HardLink { link, .. } => *link = 0,
            _ => {}
        }
        record
    };
    unnumbered(wanted) == unnumbered(found) && wanted.chunks == found.chunks
}

fn place_of(node: &Node) -> (u32, bool) {
    match &node.record {
        Record::Place { number, changes, .. } => (*number, *changes),
        _ => (u32::MAX, false),
    }
}

fn metadata_of(record: &Record) -> Option<&Metadata> {
    match record {
        Record::Place { metadata, .. } | Record::Enter { metadata, .. } => Some(metadata),
        _ => None,
    }
}

impl From<StoreError> for Unfit {
    fn from(error: StoreError) -> Unfit {
        Unfit::Store(error)
    }
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
