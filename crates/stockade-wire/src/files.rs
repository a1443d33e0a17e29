//! Messages about files.
//!
//! ```text
//! host   StreamHeader (Role::Files), FileRequest, then chunks and their end if it writes ──▶
//! guest  ◀── chunks, their end, then one FileReply
//! ```
//! A chunk is a length (`u32`, little endian, at most [`MAX_CHUNK_BYTES`]) and that many bytes; the
//! length zero ends them. Without that end the bytes are incomplete: the sender has failed.
//! The chunks of a list carry [`FileEntry`] frames, those of a watch [`FileChange`] frames, and
//! those of an upload or a download a tar archive. Those of a capture or a fill carry the records
//! of `stockade_archive::tree`.

use serde::{Deserialize, Serialize};

use crate::file_path::PathBytes;

/// The maximum length of one chunk.
pub const MAX_CHUNK_BYTES: usize = 64 << 10;

/// The maximum length of the JSON of a [`FileRequest`], [`FileReply`], [`FileEntry`] or
/// [`FileChange`]: a path may need six characters for each byte.
pub const MAX_FILE_MESSAGE_BYTES: usize = 64 << 10;

/// One operation on files. Every path is absolute, as programs inside see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FileRequest {
    /// Send a part of a regular file.
    Read {
        /// The file; links are followed.
        path: PathBytes,
        /// The first byte.
        offset: u64,
        /// How many bytes at most; `None` is to the end.
        length: Option<u64>,
    },
    /// Write the chunks to a regular file.
    Write {
        /// The file; links are followed, and missing directories made.
        path: PathBytes,
        /// What happens to an existing file.
        mode: FileWrite,
        /// Whether the file becomes executable.
        executable: bool,
    },
    /// Send what a directory contains.
    List {
        /// The directory; links are followed to it, and not below it.
        path: PathBytes,
        /// How many levels: 1 is only the directory itself.
        depth: u32,
        /// The maximum number of entries; one more is [`FileFault::TooLarge`].
        most: u64,
    },
    /// Describe one file.
    Stat {
        /// The file.
        path: PathBytes,
        /// Whether to follow a link at the end of the path.
        follow: bool,
    },
    /// Make a directory.
    MakeDirectory {
        /// The directory.
        path: PathBytes,
        /// Whether to make missing directories above it, and accept an existing one.
        parents: bool,
    },
    /// Rename a file or a directory.
    Move {
        /// What to rename; a link is renamed itself.
        from: PathBytes,
        /// Its new path.
        to: PathBytes,
        /// Whether to replace an existing file.
        replace: bool,
    },
    /// Remove a file or a directory; a link is removed itself.
    Remove {
        /// What to remove.
        path: PathBytes,
        /// Whether to remove what a directory contains.
        recursive: bool,
    },
    /// Send changes below a directory until the host drops the stream.
    Watch {
        /// The directory; links are followed to it.
        path: PathBytes,
        /// Whether to watch the directories below it too.
        recursive: bool,
    },
    /// Unpack a tar archive into a directory.
    Upload {
        /// The directory, which is made if it is missing.
        path: PathBytes,
    },
    /// Send a file or a tree as a tar archive.
    Download {
        /// The file or directory.
        path: PathBytes,
        /// Whether to follow a link at the end of the path.
        follow: bool,
    },
    /// Send everything in the writable places as the records of a tree. Programs are stopped.
    Capture {
        /// The places; their numbers are their positions.
        places: Vec<StatePlace>,
    },
    /// Send the same records, with the hashes of content in place of content. Fails with
    /// [`FileFault::Busy`] if a program runs.
    Digest {
        /// The places; their numbers are their positions.
        places: Vec<StatePlace>,
    },
    /// Write the records of a tree into the writable places. What an entry replaces is removed.
    Fill {
        /// The places; their numbers are their positions.
        places: Vec<StatePlace>,
    },
}

/// A writable place of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatePlace {
    /// Its directory.
    pub path: PathBytes,
    /// Whether an overlay keeps the changes of a directory of the host there.
    pub changes: bool,
    /// Names right below it that belong to the wall.
    pub skip: Vec<PathBytes>,
}

/// What a write does to an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileWrite {
    /// Replaces it in one step, once all bytes are written.
    Replace,
    /// Fails; the file must be new.
    Create,
    /// Adds to its end.
    Append,
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReply {
    /// It succeeded.
    Done(FileDone),
    /// It failed.
    Failed(FileFailure),
}

/// The result of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDone {
    /// For a removal, whether anything was there.
    pub changed: bool,
    /// How many bytes of content were read or written.
    pub bytes: u64,
    /// How many files of a tree were left out because they are devices, FIFOs or sockets.
    pub left_out: u64,
    /// The answer to [`FileRequest::Stat`].
    pub stat: Option<FileStat>,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFailure {
    /// The kind.
    pub fault: FileFault,
    /// The kernel's error number, if it reported one.
    pub errno: Option<i32>,
    /// The path or the entry that caused it.
    pub path: PathBytes,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFault {
    /// Nothing has this name.
    NotFound,
    /// Something has this name already.
    Exists,
    /// A component of the path is not a directory.
    NotADirectory,
    /// The path is a directory.
    IsADirectory,
    /// The directory has entries.
    NotEmpty,
    /// The path has `..`, too many links, or changed into a link while it was used.
    Traversal,
    /// The sandbox's user may not do it, or the file system is read-only.
    Permission,
    /// No space, no inodes or no quota is left.
    Quota,
    /// More bytes or entries than allowed.
    TooLarge,
    /// The name or the path is too long.
    NameTooLong,
    /// A device, FIFO or socket.
    SpecialFile,
    /// The file is in use, or the sandbox has no process or descriptor left for the operation.
    Busy,
    /// Source and destination are in different file systems.
    CrossesMounts,
    /// The archive is not a tar archive, or has an entry that is not allowed.
    Archive,
    /// The sender of the bytes stopped before their end.
    Incomplete,
    /// Any other error of the kernel.
    Other,
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When it was changed last, in seconds since 1970.
    pub modified: i64,
    /// The target of a link.
    pub target: Option<PathBytes>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, FIFO or socket.
    Special,
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// The path below the listed directory.
    pub path: PathBytes,
    /// What it is.
    pub stat: FileStat,
}

/// One change in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// The kind.
    pub kind: FileChangeKind,
    /// The path below the watched directory; empty for the directory itself.
    pub path: PathBytes,
}

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// The watch holds: every later change is reported.
    Ready,
    /// It appeared, or was renamed to this name.
    Created,
    /// Its content was written or its mode changed.
    Modified,
    /// It disappeared, or was renamed to another name.
    Removed,
    /// Changes were lost, because too many came at once.
    Lost,
}
