//! The files of a sandbox as the records of a checkpoint.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stockade_archive::ArchiveError;
use stockade_archive::tree::{
    FileHead, MAX_DEPTH, Metadata, Order, Record, Time, end_content, read_extent, write_extent,
};
use stockade_provider::{FileErrorKind, Transfer, WritablePlace};
use tokio::io::{AsyncRead, ReadBuf};

use super::Fault;
use super::content::Content;
use super::node::{Kind, Node, lock};
use super::provided::{Failure, stat_of};
use super::tree::{Last, Tree};

/// How many bytes of a file become one extent.
const PIECE: usize = 256 << 10;

/// Why the files cannot be captured.
#[derive(Debug, thiserror::Error)]
enum CaptureError {
    /// A name leads to a file whose content was not taken at the moment of the checkpoint.
    #[error(
        "the content of {name} was not taken with that of the other files, so no checkpoint is made"
    )]
    NoContent {
        /// The name, without its directories.
        name: String,
    },
}

/// The files of the places at one moment. What programs write afterwards is not in it.
pub(super) fn capture(tree: &Tree, places: &[WritablePlace]) -> Result<Captured, Failure> {
    let _names = tree.hold_names();
    let roots =
        places.iter().map(|place| place_node(tree, place)).collect::<Result<Vec<_>, _>>()?;
    let mut files = BTreeMap::new();
    for root in &roots {
        count_names(root, 0, &mut files)?;
    }
    // All at once, so that no file is newer than another.
    let held: Vec<_> = files.values().filter_map(|file| file.content().map(lock)).collect();
    let contents: Vec<_> = held.iter().map(|content| content.share()).collect();
    drop(held);
    let mut walk = Walk {
        names: files.values().map(|file| (file.node.number, file.names)).collect(),
        contents: files.keys().copied().zip(contents).collect(),
        links: HashMap::new(),
        parts: VecDeque::new(),
        records: Vec::new(),
    };
    for (number, root) in (0..).zip(&roots) {
        let metadata = metadata(root);
        Record::Place { number, changes: false, metadata }.encode(&mut walk.records);
        walk.directory(root)?;
    }
    Record::End.encode(&mut walk.records);
    walk.end_records();
    Ok(Captured { parts: walk.parts, piece: Vec::new(), at: 0 })
}

fn place_node(tree: &Tree, place: &WritablePlace) -> Result<Arc<Node>, Fault> {
    tree.find(&tree.root(), &place.path.to_string(), Last::Keep)?.node.ok_or(Fault::NotFound)
}

/// A file with the number of its names.
struct NamedFile {
    node: Arc<Node>,
    names: u64,
}

impl NamedFile {
    fn content(&self) -> Option<&Mutex<Content>> {
        match &self.node.kind {
            Kind::File(content) => Some(content),
            Kind::Directory(_) | Kind::Link(_) | Kind::Null => None,
        }
    }
}

/// The entries of a directory that are not the wall's own.
fn entries(directory: &Node) -> Result<Vec<(String, Arc<Node>)>, Fault> {
    let entries = directory.entries()?;
    let own = entries.iter().filter(|(_, node)| !node.is_fixed);
    Ok(own.map(|(name, node)| (name.clone(), Arc::clone(node))).collect())
}

fn count_names(
    directory: &Node,
    depth: usize,
    files: &mut BTreeMap<u64, NamedFile>,
) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::Kind(FileErrorKind::TooLarge));
    }
    for (_, node) in entries(directory)? {
        match &node.kind {
            Kind::Directory(_) => count_names(&node, depth + 1, files)?,
            Kind::File(_) => {
                files.entry(node.number).or_insert(NamedFile { node, names: 0 }).names += 1;
            }
            Kind::Link(_) | Kind::Null => {}
        }
    }
    Ok(())
}

fn metadata(node: &Node) -> Metadata {
    Metadata { mode: stat_of(node).mode, modified: time_of(node), attributes: Vec::new() }
}

fn time_of(node: &Node) -> Time {
    // WASI has no time before 1970.
    let since = node.modified().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Time { seconds, nanoseconds: since.subsec_nanos() }
}

struct Walk {
    names: HashMap<u64, u64>,
    contents: HashMap<u64, Arc<Vec<u8>>>,
    /// The numbers by which hard links name files, by those of their nodes.
    links: HashMap<u64, u64>,
    parts: VecDeque<Part>,
    /// Records that are not in a part yet.
    records: Vec<u8>,
}

impl Walk {
    fn directory(&mut self, directory: &Node) -> Result<(), Failure> {
        for (name, node) in entries(directory)? {
            let name = name.into_bytes();
            match &node.kind {
                Kind::Directory(_) => {
                    let metadata = metadata(&node);
                    let record = Record::Enter { name, metadata, replaces: false };
                    record.encode(&mut self.records);
                    self.directory(&node)?;
                    Record::Leave.encode(&mut self.records);
                }
                Kind::Link(target) => {
                    let (target, modified) = (target.clone().into_bytes(), time_of(&node));
                    Record::Link { name, target, modified }.encode(&mut self.records);
                }
                Kind::File(_) => self.file(name, &node)?,
                Kind::Null => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, name: Vec<u8>, node: &Node) -> Result<(), Failure> {
        if let Some(link) = self.links.get(&node.number) {
            let link = *link;
            Record::HardLink { name, link }.encode(&mut self.records);
            return Ok(());
        }
        let Some(content) = self.contents.get(&node.number).map(Arc::clone) else {
            let name = name.escape_ascii().to_string();
            let missing = Box::new(CaptureError::NoContent { name });
            return Err(Failure::Because(FileErrorKind::Incomplete, missing));
        };
        let has_more = self.names.get(&node.number).is_some_and(|names| *names > 1);
        let link = has_more.then(|| {
            let link = u64::try_from(self.links.len()).expect("usize has at most 64 bits");
            self.links.insert(node.number, link);
            link
        });
        let size = u64::try_from(content.len()).expect("usize has at most 64 bits");
        let head = FileHead { name, metadata: metadata(node), size, link };
        Record::File(head).encode(&mut self.records);
        self.end_records();
        self.parts.push_back(Part::Content { content, at: 0 });
        Ok(())
    }

    fn end_records(&mut self) {
        self.parts.push_back(Part::Records(std::mem::take(&mut self.records)));
    }
}

/// A part of the stream.
enum Part {
    Records(Vec<u8>),
    Content { content: Arc<Vec<u8>>, at: usize },
}

/// A stream of records, which is made while it is read.
pub(super) struct Captured {
    parts: VecDeque<Part>,
    piece: Vec<u8>,
    at: usize,
}

impl Captured {
    /// The next bytes of the stream; `None` at its end.
    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let (content, at) = match self.parts.pop_front()? {
            Part::Records(bytes) => return Some(bytes),
            Part::Content { content, at } => (content, at),
        };
        const WRITES: &str = "a vector takes every byte";
        let mut piece = Vec::new();
        let mut extents = content[at..].chunks(PIECE).zip((at..).step_by(PIECE));
        match extents.find(|(bytes, _)| bytes.iter().any(|byte| *byte != 0)) {
            Some((bytes, start)) => {
                let offset = u64::try_from(start).expect("usize has at most 64 bits");
                write_extent(offset, bytes, &mut piece).expect(WRITES);
                let at = start + bytes.len();
                self.parts.push_front(Part::Content { content, at });
            }
            None => end_content(&mut piece).expect(WRITES),
        }
        Some(piece)
    }
}

impl AsyncRead for Captured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.at == self.piece.len() {
            let Some(piece) = self.next_piece() else { return Poll::Ready(Ok(())) };
            (self.piece, self.at) = (piece, 0);
        }
        let taken = buffer.remaining().min(self.piece.len() - self.at);
        buffer.put_slice(&self.piece[self.at..self.at + taken]);
        self.at += taken;
        Poll::Ready(Ok(()))
    }
}

/// Writes records into the places. What an entry replaces is removed.
pub(super) fn fill(
    tree: &Tree,
    places: &[WritablePlace],
    source: &mut impl Read,
) -> Result<Transfer, Failure> {
    let mut order = Order::default();
    let mut filling = Filling {
        tree,
        above: 0,
        levels: Vec::new(),
        files: HashMap::new(),
        buffer: Vec::new(),
        bytes: 0,
    };
    loop {
        let record = Record::decode(source).map_err(damaged)?;
        order.check(&record, u64::MAX).map_err(damaged)?;
        match record {
            Record::Place { number, changes: false, metadata } => {
                filling.leave();
                let place = usize::try_from(number).ok().and_then(|number| places.get(number));
                let place = place.ok_or(Failure::Kind(FileErrorKind::Archive))?;
                filling.above = place.path.to_string().matches('/').count();
                filling.levels.push((place_node(tree, place)?, metadata.modified));
            }
            Record::Leave => filling.leave(),
            Record::File(head) => filling.file(head, source)?,
            Record::End => {
                filling.leave();
                // The sender expects that its end is read too.
                io::copy(source, &mut io::sink())
                    .map_err(|source| damaged(ArchiveError::Stream { source }))?;
                return Ok(Transfer { bytes: filling.bytes, left_out: 0 });
            }
            record => filling.entry(record)?,
        }
    }
}

fn damaged(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Stream { source } => {
            Failure::Because(FileErrorKind::Incomplete, Box::new(source))
        }
        error => Failure::Because(FileErrorKind::Archive, Box::new(error)),
    }
}

struct Filling<'t> {
    tree: &'t Tree,
    /// How many directories the current place has above its entries.
    above: usize,
    /// The open directories, with the time that each gets when it is complete.
    levels: Vec<(Arc<Node>, Time)>,
    /// The files that hard links name.
    files: HashMap<u64, Arc<Node>>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Filling<'_> {
    fn entry(&mut self, record: Record) -> Result<(), Failure> {
        match record {
            Record::Enter { name, metadata, .. } => {
                // Deeper paths are not found.
                if self.above + self.levels.len() >= Tree::MAX_DEPTH {
                    return Err(Fault::NameTooLong.into());
                }
                let name = text(name)?;
                let there = self.here()?.child(&name)?.filter(|node| node.is_directory());
                let directory = match there {
                    Some(directory) => directory,
                    None => self.put(name, Node::new(Node::empty_directory(), self.budgets())?)?,
                };
                directory.check_writable()?;
                self.levels.push((directory, metadata.modified));
            }
            Record::Link { name, target, modified } => {
                let link = Node::new(Kind::Link(text(target)?), self.budgets())?;
                let link = self.put(text(name)?, link)?;
                set_time(&link, modified);
            }
            Record::HardLink { name, link } => {
                let file = self.files.get(&link).map(Arc::clone);
                self.put(text(name)?, file.ok_or(Failure::Kind(FileErrorKind::Archive))?)?;
            }
            Record::Node { name, .. } => {
                let name = name.escape_ascii();
                let why = format!("{name} is a FIFO or a socket, which this wall does not have");
                return Err(Failure::Because(FileErrorKind::SpecialFile, why.into()));
            }
            // A place with only the changes of a directory of the host; this wall has none.
            Record::Place { .. } | Record::Deleted { .. } => {
                return Err(Failure::Kind(FileErrorKind::Archive));
            }
            Record::Leave | Record::File(_) | Record::End => {}
        }
        Ok(())
    }

    fn file(&mut self, head: FileHead, source: &mut impl Read) -> Result<(), Failure> {
        let FileHead { name, metadata, size, link } = head;
        let content = Content::new(Arc::clone(self.budgets()));
        let file = Node::new(Kind::File(Mutex::new(content)), self.budgets())?;
        file.set_len(size)?;
        let mut end = 0;
        while let Some(extent) =
            read_extent(source, size, end, &mut self.buffer).map_err(damaged)?
        {
            file.write(Some(extent.offset), &self.buffer)?;
            let bytes = u64::try_from(extent.bytes).expect("usize has at most 64 bits");
            end = extent.offset + bytes;
            self.bytes += bytes;
        }
        if metadata.mode & 0o100 != 0 {
            file.make_executable();
        }
        set_time(&file, metadata.modified);
        let file = self.put(text(name)?, file)?;
        if let Some(link) = link {
            self.files.insert(link, file);
        }
        Ok(())
    }

    fn here(&self) -> Result<&Arc<Node>, Failure> {
        let level = self.levels.last().ok_or(Failure::Kind(FileErrorKind::Archive))?;
        Ok(&level.0)
    }

    fn put(&self, name: String, node: Arc<Node>) -> Result<Arc<Node>, Failure> {
        self.tree.put(self.here()?, name, Arc::clone(&node))?;
        Ok(node)
    }

    fn budgets(&self) -> &Arc<crate::limits::Budgets> {
        &self.tree.budgets
    }

    /// Ends the innermost open directory.
    fn leave(&mut self) {
        if let Some((directory, modified)) = self.levels.pop() {
            set_time(&directory, modified);
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let name = error.as_bytes().escape_ascii();
        let why = format!("the name {name} is not UTF-8, and this wall has only such names");
        Failure::Because(FileErrorKind::Archive, why.into())
    })
}

fn set_time(node: &Node, time: Time) {
    let since = Duration::new(u64::try_from(time.seconds).unwrap_or(0), time.nanoseconds);
    node.set_modified(UNIX_EPOCH.checked_add(since).unwrap_or_else(SystemTime::now));
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
