//! Operations on the files of a session.
//!
//! ```text
//! client ── Request::File ──▶ supervisor
//!        ── Input frames, then InputEnd ──▶   for a write or an upload
//!        ◀── Output frames ──                 of a read or a download
//!        ◀── Reply::File or Reply::FileFailed ──
//! ```
//! A watch answers with `Reply::File` once it holds, with `more` set, then with `Reply::FileChange`
//! for each change, and with a last `Reply::File` when the directory is gone. A client ends it by
//! closing the connection.

use serde::{Deserialize, Serialize};
pub use stockade_wire::{PathBytes, PathBytesError};

/// One operation. A relative path starts in the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FileParams {
    /// Receive a part of a file.
    Read {
        /// The file.
        path: PathBytes,
        /// The first byte.
        offset: u64,
        /// How many bytes at most; `None` is to the end.
        length: Option<u64>,
    },
    /// Write a file.
    Write {
        /// The file.
        path: PathBytes,
        /// What happens to an existing file.
        mode: FileMode,
        /// Whether it becomes executable.
        executable: bool,
    },
    /// List a directory.
    List {
        /// The directory.
        path: PathBytes,
        /// How many levels; 1 is only the directory itself.
        depth: u32,
    },
    /// Describe a file.
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
        /// Whether to make those above it too.
        parents: bool,
    },
    /// Rename a file or a directory.
    Move {
        /// The old path.
        from: PathBytes,
        /// The new path.
        to: PathBytes,
        /// Whether to replace an existing file.
        replace: bool,
    },
    /// Remove a file or a directory.
    Remove {
        /// What to remove.
        path: PathBytes,
        /// Whether to remove what a directory contains.
        recursive: bool,
    },
    /// Unpack a tar archive into a directory.
    Upload {
        /// The directory.
        path: PathBytes,
    },
    /// Receive a file or a tree as a tar archive.
    Download {
        /// The file or directory.
        path: PathBytes,
        /// Whether to follow a link at the end of the path.
        follow: bool,
    },
    /// Receive the changes below a directory.
    Watch {
        /// The directory.
        path: PathBytes,
        /// Whether to watch the directories below it too.
        recursive: bool,
    },
}

/// A change below a watched directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChangeView {
    /// `created`, `modified`, `removed`, or `lost`: some changes were not seen.
    pub kind: String,
    /// What has changed, below the watched directory; `None` is the directory itself.
    pub path: Option<PathBytes>,
}

/// What a write does to an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileMode {
    /// Replaces it in one step.
    Replace,
    /// Fails.
    Create,
    /// Adds to its end.
    Append,
}

/// The result of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileResult {
    /// For a removal, whether anything was there.
    pub changed: bool,
    /// How many bytes were read or written.
    pub bytes: u64,
    /// How many devices, FIFOs and sockets were left out.
    pub left_out: u64,
    /// The answer to `Stat`, and the last entries of `List`. A long list comes in several replies;
    /// all but the last have `more`.
    pub entries: Vec<FileView>,
    /// Whether another reply with entries or changes follows.
    pub more: bool,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileView {
    /// The path: as requested, or below the listed directory.
    pub path: PathBytes,
    /// `file`, `directory`, `link` or `special`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When it was changed last, in seconds since 1970.
    pub modified: i64,
    /// The target of a link.
    pub target: Option<PathBytes>,
}
