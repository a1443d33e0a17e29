//! Records and their binary form.

use std::io::{self, Read};

use crate::{ArchiveError, Refusal};

/// The maximum length of a name.
pub const MAX_NAME_BYTES: usize = 255;
/// The maximum number of directories inside each other. Each costs an open descriptor.
pub const MAX_DEPTH: usize = 512;
/// The maximum length of the target of a link.
const MAX_TARGET_BYTES: usize = 4095;
/// The maximum length of all extended attributes of one entry.
const MAX_ATTRIBUTE_BYTES: usize = 256 << 10;
/// All bits of a mode. Set-id bits are carried so that applying can refuse them.
const MODE: u32 = 0o7777;
/// The bits that filling sets: never set-id bits.
pub(super) const FILLED_MODE: u32 = 0o1777;

/// A time of modification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, less than a billion.
    pub nanoseconds: u32,
}

/// What an entry has in addition to its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Its permission bits, without set-id bits.
    pub mode: u32,
    /// When it was modified.
    pub modified: Time,
    /// Its extended attributes by name, sorted.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A regular file without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHead {
    /// Its name.
    pub name: Vec<u8>,
    /// Its metadata.
    pub metadata: Metadata,
    /// Its length, holes included.
    pub size: u64,
    /// The number by which later hard links name it, if there are any.
    pub link: Option<u64>,
}

/// The kinds of special files that a sandbox can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A named pipe.
    Fifo,
    /// A socket; no process listens on a restored one.
    Socket,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The root directory of a writable place. Its number is its place in a list of paths.
    Place {
        /// The number.
        number: u32,
        /// Whether the records are changes of a read-only directory rather than everything.
        changes: bool,
        /// The metadata of the directory.
        metadata: Metadata,
    },
    /// A directory, whose entries follow.
    Enter {
        /// Its name.
        name: Vec<u8>,
        /// Its metadata.
        metadata: Metadata,
        /// Whether it hides what the read-only directory has below this name.
        replaces: bool,
    },
    /// The end of a directory.
    Leave,
    /// A regular file, whose content follows.
    File(FileHead),
    /// A symbolic link.
    Link {
        /// Its name.
        name: Vec<u8>,
        /// Its target.
        target: Vec<u8>,
        /// When it was modified.
        modified: Time,
    },
    /// Another name of a file.
    HardLink {
        /// The name.
        name: Vec<u8>,
        /// The number of the file.
        link: u64,
    },
    /// A special file.
    Node {
        /// Its name.
        name: Vec<u8>,
        /// Its kind.
        kind: Node,
        /// Its metadata.
        metadata: Metadata,
    },
    /// A name of the read-only directory that was removed.
    Deleted {
        /// The name.
        name: Vec<u8>,
    },
    /// The end of all places.
    End,
}

impl Record {
    /// The name in its directory, if it has one.
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Record::Enter { name, .. }
            | Record::Link { name, .. }
            | Record::HardLink { name, .. }
            | Record::Node { name, .. }
            | Record::Deleted { name } => Some(name),
            Record::File(head) => Some(&head.name),
            Record::Place { .. } | Record::Leave | Record::End => None,
        }
    }

    /// Appends the binary form.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Record::End => bytes.push(0),
            Record::Place { number, changes, metadata } => {
                bytes.push(1);
                bytes.extend_from_slice(&number.to_le_bytes());
                bytes.push(u8::from(*changes));
                put_metadata(metadata, bytes);
            }
            Record::Enter { name, metadata, replaces } => {
                bytes.push(2);
                put(name, bytes);
                put_metadata(metadata, bytes);
                bytes.push(u8::from(*replaces));
            }
            Record::Leave => bytes.push(3),
            Record::File(head) => {
                bytes.push(4);
                put(&head.name, bytes);
                put_metadata(&head.metadata, bytes);
                bytes.extend_from_slice(&head.size.to_le_bytes());
                bytes.push(u8::from(head.link.is_some()));
                bytes.extend_from_slice(&head.link.unwrap_or(0).to_le_bytes());
            }
            Record::Link { name, target, modified } => {
                bytes.push(5);
                put(name, bytes);
                put(target, bytes);
                put_time(*modified, bytes);
            }
            Record::HardLink { name, link } => {
                bytes.push(6);
                put(name, bytes);
                bytes.extend_from_slice(&link.to_le_bytes());
            }
            Record::Node { name, kind, metadata } => {
                bytes.push(match kind {
                    Node::Fifo => 7,
                    Node::Socket => 8,
                });
                put(name, bytes);
                put_metadata(metadata, bytes);
            }
            Record::Deleted { name } => {
                bytes.push(9);
                put(name, bytes);
            }
        }
    }

    /// Reads one record.
    pub fn decode(source: &mut impl Read) -> Result<Record, ArchiveError> {
        Ok(match byte(source)? {
            0 => Record::End,
            1 => Record::Place {
                number: u32::from_le_bytes(array(source)?),
                changes: flag(source)?,
                metadata: metadata(source)?,
            },
            2 => Record::Enter {
                name: name(source)?,
                metadata: metadata(source)?,
                replaces: flag(source)?,
            },
            3 => Record::Leave,
            4 => {
                let (name, metadata) = (name(source)?, metadata(source)?);
                let size = u64::from_le_bytes(array(source)?);
                if i64::try_from(size).is_err() {
                    return Err(refused(&name, Refusal::TooLarge));
                }
                let has_link = flag(source)?;
                let link = u64::from_le_bytes(array(source)?);
                Record::File(FileHead { name, metadata, size, link: has_link.then_some(link) })
            }
            5 => {
                let (name, target) = (name(source)?, text(source, MAX_TARGET_BYTES)?);
                if target.is_empty() || target.contains(&0) {
                    return Err(refused(&name, Refusal::Link));
                }
                Record::Link { name, target, modified: time(source)? }
            }
            6 => Record::HardLink { name: name(source)?, link: u64::from_le_bytes(array(source)?) },
            kind @ (7 | 8) => Record::Node {
                name: name(source)?,
                kind: if kind == 7 { Node::Fifo } else { Node::Socket },
                metadata: metadata(source)?,
            },
            9 => Record::Deleted { name: name(source)? },
            _ => return Err(refused(b"", Refusal::Damaged)),
        })
    }
}

pub(super) fn refused(name: &[u8], refusal: Refusal) -> ArchiveError {
    ArchiveError::Refused { name: name.to_vec(), refusal }
}

/// The error of a stream that ends or fails.
pub(super) fn stream(source: io::Error) -> ArchiveError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => refused(b"", Refusal::Truncated),
        _ => ArchiveError::Stream { source },
    }
}

fn put(text: &[u8], bytes: &mut Vec<u8>) {
    let length = u32::try_from(text.len()).expect("names, targets and attributes are short");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text);
}

fn put_time(time: Time, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&time.seconds.to_le_bytes());
    bytes.extend_from_slice(&time.nanoseconds.to_le_bytes());
}

fn put_metadata(metadata: &Metadata, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&metadata.mode.to_le_bytes());
    put_time(metadata.modified, bytes);
    let count = u32::try_from(metadata.attributes.len()).expect("attributes are bounded");
    bytes.extend_from_slice(&count.to_le_bytes());
    for (name, value) in &metadata.attributes {
        put(name, bytes);
        put(value, bytes);
    }
}

fn byte(source: &mut impl Read) -> Result<u8, ArchiveError> {
    array::<1>(source).map(|[byte]| byte)
}

fn array<const N: usize>(source: &mut impl Read) -> Result<[u8; N], ArchiveError> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes).map_err(stream)?;
    Ok(bytes)
}

fn flag(source: &mut impl Read) -> Result<bool, ArchiveError> {
    match byte(source)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(refused(b"", Refusal::Damaged)),
    }
}

fn text(source: &mut impl Read, most: usize) -> Result<Vec<u8>, ArchiveError> {
    let length = u32::from_le_bytes(array(source)?) as usize;
    if length > most {
        return Err(refused(b"", Refusal::LongName));
    }
    let mut bytes = vec![0; length];
    source.read_exact(&mut bytes).map_err(stream)?;
    Ok(bytes)
}

/// A single component, which is neither the directory itself nor the one above.
fn name(source: &mut impl Read) -> Result<Vec<u8>, ArchiveError> {
    let name = text(source, MAX_NAME_BYTES)?;
    match matches!(&*name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        true => Err(refused(&name, Refusal::Name)),
        false => Ok(name),
    }
}

fn time(source: &mut impl Read) -> Result<Time, ArchiveError> {
    let seconds = i64::from_le_bytes(array(source)?);
    let nanoseconds = u32::from_le_bytes(array(source)?);
    match nanoseconds < 1_000_000_000 {
        true => Ok(Time { seconds, nanoseconds }),
        false => Err(refused(b"", Refusal::Damaged)),
    }
}

fn metadata(source: &mut impl Read) -> Result<Metadata, ArchiveError> {
    let mode = u32::from_le_bytes(array(source)?) & MODE;
    let modified = time(source)?;
    let count = u32::from_le_bytes(array(source)?);
    let (mut attributes, mut left) = (Vec::new(), MAX_ATTRIBUTE_BYTES);
    for _ in 0..count {
        let name = text(source, MAX_NAME_BYTES.min(left))?;
        if !may_carry(&name) {
            return Err(refused(&name, Refusal::Kind));
        }
        let value = text(source, left.saturating_sub(name.len()))?;
        // At least one byte each, so that the number of attributes is bounded too.
        left = left.saturating_sub(name.len() + value.len()).saturating_sub(1);
        attributes.push((name, value));
    }
    Ok(Metadata { mode, modified, attributes })
}

/// Whether a sandbox may set an extended attribute of this name.
pub(super) fn may_carry(name: &[u8]) -> bool {
    // The overlay's own notes are not the program's.
    let is_user = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
    let is_access_list = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    (is_user || is_access_list) && !name.contains(&0)
}

impl Metadata {
    pub(super) fn new(mode: u32, modified: Time) -> Metadata {
        Metadata { mode: mode & MODE, modified, attributes: Vec::new() }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
