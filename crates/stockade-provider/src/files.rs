//! The files inside a sandbox.

use std::fmt;
use std::io;

use futures_core::future::BoxFuture;
use tokio::io::AsyncRead;

use crate::{Error, FilePath};

/// Bytes of a file or an archive, as a stream.
///
/// A failure in the middle is an [`io::Error`] that contains a [`FileError`].
pub type FileBytes = Box<dyn AsyncRead + Send + Unpin>;

/// Operations on the files inside a sandbox, with the rights and the quota of its programs.
///
/// No code of the host resolves a path inside: the wall does, from inside.
pub trait Files: Send + Sync {
    /// Reads a part of a regular file. Links are followed inside.
    fn read<'a>(
        &'a self,
        path: &'a FilePath,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>>;

    /// Writes all bytes of a stream to a regular file and makes missing directories. Returns the
    /// number of bytes. If the stream fails, an existing file stays as it was, unless it was
    /// appended to.
    fn write<'a>(
        &'a self,
        path: &'a FilePath,
        how: FileWriting,
        content: FileBytes,
    ) -> BoxFuture<'a, Result<u64, FileError>>;

    /// Lists a directory, `depth` levels deep: 1 is only the directory itself. At most `most`
    /// entries; more are [`FileErrorKind::TooLarge`].
    fn list<'a>(
        &'a self,
        path: &'a FilePath,
        depth: u32,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>>;

    /// Describes one file.
    fn stat<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileStat, FileError>>;

    /// Makes a directory. With `parents`, also the directories above it, and an existing one is no
    /// error.
    fn make_directory<'a>(
        &'a self,
        path: &'a FilePath,
        parents: bool,
    ) -> BoxFuture<'a, Result<(), FileError>>;

    /// Renames a file or a directory; with `replace` also onto an existing file.
    fn rename<'a>(
        &'a self,
        from: &'a FilePath,
        to: &'a FilePath,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), FileError>>;

    /// Removes a file or a directory, with everything in it if `recursive`. Returns false if nothing
    /// was there. A link is removed itself.
    fn remove<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<bool, FileError>>;

    /// Watches a directory, with those below it if `recursive`. Returns when every later change will
    /// be reported. Dropping the watch ends it.
    fn watch<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<Box<dyn FileWatch>, FileError>>;

    /// Unpacks a tar archive into a directory, which is made if it is missing.
    fn upload<'a>(
        &'a self,
        path: &'a FilePath,
        archive: FileBytes,
    ) -> BoxFuture<'a, Result<Transfer, FileError>>;

    /// A file or a tree as a tar archive; its first entry is the file or directory itself, under
    /// the last component of its path.
    ///
    /// The archive comes from inside and is hostile.
    fn download<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>>;

    /// The places that [`Files::capture`] reads, by their numbers. Empty if the wall cannot tell
    /// what programs changed; it then refuses to capture.
    fn places(&self) -> Vec<WritablePlace> {
        Vec::new()
    }

    /// Why [`Files::places`] is empty, in the words of the wall: the reason of a refused checkpoint.
    fn why_no_places(&self) -> &'static str {
        NOT_KEPT
    }

    /// Everything in the writable places as the records of a tree. The caller pauses the sandbox
    /// before; a wall that still sees a running program fails with [`FileErrorKind::Busy`].
    ///
    /// The records come from inside and are hostile.
    fn capture(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        Box::pin(async { Err(not_kept(FileOperation::Capture)) })
    }

    /// The same records with the BLAKE3 hashes of content in place of content. Fails with
    /// [`FileErrorKind::Busy`] if any process of a program exists, running or stopped.
    ///
    /// The records come from inside and are hostile.
    fn digest(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        Box::pin(async { Err(not_kept(FileOperation::Digest)) })
    }

    /// Writes the records of a tree into the writable places, in which no program runs. What an
    /// entry replaces is removed, and what has no record stays.
    fn fill(&self, _tree: FileBytes) -> BoxFuture<'_, Result<Transfer, FileError>> {
        Box::pin(async { Err(not_kept(FileOperation::Fill)) })
    }
}

/// The reason of a wall that has none of its own.
const NOT_KEPT: &str = "it does not keep apart what programs write";

/// The refusal of a wall that does not keep apart what programs write.
fn not_kept(operation: FileOperation) -> FileError {
    let path = FilePath::new(".").expect("a dot is a path");
    let source = Some(NOT_KEPT.into());
    FileError { operation, path, kind: FileErrorKind::Other, source }
}

/// A place whose files end with the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritablePlace {
    /// Its directory inside.
    pub path: FilePath,
    /// The directory of the host below it, if an overlay keeps the changes of one.
    pub base: Option<std::path::PathBuf>,
    /// Names right below it that belong to the wall.
    pub skip: Vec<Vec<u8>>,
}

impl WritablePlace {
    /// The places that every sandbox has, and its workspace, by the policy.
    pub fn of(policy: &stockade_policy::Policy) -> Vec<WritablePlace> {
        use stockade_policy::{SCRATCH, WORKSPACE, Workspace, WorkspaceMode};
        let place = |path: &str, base| {
            let own = std::path::Path::new(crate::ToolAccess::DIRECTORY);
            let is_above = own.parent().is_some_and(|above| above == std::path::Path::new(path));
            let name = own.file_name().filter(|_| is_above);
            let skip = name.map(|name| name.as_encoded_bytes().to_vec()).into_iter().collect();
            let path = FilePath::new(path.as_bytes()).expect("the wall's own paths are valid");
            WritablePlace { path, base, skip }
        };
        let is_shown = |path: &str| policy.mounts.iter().any(|mount| mount.guest.as_str() == path);
        let mut places: Vec<WritablePlace> =
            (SCRATCH.iter()).filter(|path| !is_shown(path)).map(|path| place(path, None)).collect();
        match &policy.workspace.value {
            Workspace::Scratch => places.push(place(WORKSPACE, None)),
            Workspace::Host { host, mode: WorkspaceMode::Overlay } => {
                places.push(place(WORKSPACE, Some(host.clone())));
            }
            Workspace::Host { .. } | Workspace::Nothing => {}
        }
        places
    }
}

/// Reports the changes below a directory.
pub trait FileWatch: Send {
    /// The next change; `None` when the watch has ended.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<FileChange>, FileError>>;
}

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePart {
    /// The first byte.
    pub offset: u64,
    /// How many bytes at most; `None` is to the end.
    pub length: Option<u64>,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileWriting {
    /// What happens to an existing file.
    pub mode: FileWriteMode,
    /// Whether the file becomes executable; an existing file otherwise keeps its permissions.
    pub executable: bool,
}

/// What a write does to an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWriteMode {
    /// Replaces it in one step, once all bytes are written.
    Replace,
    /// Fails with [`FileErrorKind::Exists`].
    Create,
    /// Adds to its end.
    Append,
}

/// What to do with a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalLink {
    /// Use what it leads to.
    Follow,
    /// Use the link itself.
    Keep,
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When it was changed last, in seconds since 1970.
    pub modified: i64,
    /// The target of a link, in any bytes.
    pub target: Option<Vec<u8>>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The path below the listed directory.
    pub path: FilePath,
    /// What it is.
    pub stat: FileStat,
}

/// One change in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The kind.
    pub kind: FileChangeKind,
    /// The path below the watched directory; `None` for the directory itself.
    pub path: Option<FilePath>,
}

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChangeKind {
    /// It appeared, or was renamed to this name.
    Created,
    /// Its content was written or its mode changed.
    Modified,
    /// It disappeared, or was renamed to another name.
    Removed,
    /// Changes were lost, because too many came at once.
    Lost,
}

/// What an upload did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// How many bytes of content were written.
    pub bytes: u64,
    /// How many devices, FIFOs and sockets were left out.
    pub left_out: u64,
}

/// Why an operation on files failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {kind}")]
pub struct FileError {
    /// What was being done.
    pub operation: FileOperation,
    /// The path that the caller named.
    pub path: FilePath,
    /// Why it failed.
    pub kind: FileErrorKind,
    /// The cause, if there is one.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> io::Error {
        let kind = match error.kind {
            FileErrorKind::NotFound => io::ErrorKind::NotFound,
            FileErrorKind::Exists => io::ErrorKind::AlreadyExists,
            FileErrorKind::Permission => io::ErrorKind::PermissionDenied,
            FileErrorKind::Quota => io::ErrorKind::QuotaExceeded,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Error {
        let kind = match error.kind {
            FileErrorKind::Busy => crate::ErrorKind::Busy,
            FileErrorKind::Lost => crate::ErrorKind::Lost,
            _ => crate::ErrorKind::Invalid,
        };
        let remedy = error.kind.remedy();
        let error = Error::new(kind, error);
        match remedy {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }
}

/// The operations on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// [`Files::read`].
    Read,
    /// [`Files::write`].
    Write,
    /// [`Files::list`].
    List,
    /// [`Files::stat`].
    Stat,
    /// [`Files::make_directory`].
    MakeDirectory,
    /// [`Files::rename`].
    Rename,
    /// [`Files::remove`].
    Remove,
    /// [`Files::watch`].
    Watch,
    /// [`Files::upload`].
    Upload,
    /// [`Files::download`].
    Download,
    /// [`Files::capture`].
    Capture,
    /// [`Files::digest`].
    Digest,
    /// [`Files::fill`].
    Fill,
}

impl FileOperation {
    /// The operation as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            FileOperation::Read => "read",
            FileOperation::Write => "write",
            FileOperation::List => "list",
            FileOperation::Stat => "stat",
            FileOperation::MakeDirectory => "make_directory",
            FileOperation::Rename => "move",
            FileOperation::Remove => "remove",
            FileOperation::Watch => "watch",
            FileOperation::Upload => "upload",
            FileOperation::Download => "download",
            FileOperation::Capture => "capture",
            FileOperation::Digest => "digest",
            FileOperation::Fill => "fill",
        }
    }
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileOperation::Stat => "look at",
            FileOperation::MakeDirectory => "make the directory",
            FileOperation::Upload => "upload to",
            operation => operation.as_str(),
        })
    }
}

/// The kinds of failure of an operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileErrorKind {
    /// Nothing has this name.
    #[error("no such file or directory")]
    NotFound,
    /// Something has this name already.
    #[error("it exists already")]
    Exists,
    /// A component of the path is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// The path is a directory.
    #[error("it is a directory")]
    IsADirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The path has `..`, too many links, or changed into a link while it was used.
    #[error("the path leads elsewhere: it has `..`, too many links, or changes while it is used")]
    Traversal,
    /// The sandbox's user may not do it, or the file system is read-only.
    #[error("the sandbox has no permission")]
    Permission,
    /// No space, no inodes or no quota is left inside.
    #[error("the sandbox's space for files is full")]
    Quota,
    /// More bytes or entries than allowed.
    #[error("it is larger than allowed")]
    TooLarge,
    /// The name or the path is too long.
    #[error("the name is too long")]
    NameTooLong,
    /// A device, FIFO or socket.
    #[error("it is a device, FIFO or socket")]
    SpecialFile,
    /// The file is in use, or too many operations run.
    #[error("it is in use, or too many operations run at once")]
    Busy,
    /// Source and destination are in different file systems.
    #[error("source and destination are in different file systems")]
    CrossesMounts,
    /// The archive is not a tar archive, or has an entry that is not allowed.
    #[error("the archive is damaged or has an entry that is not allowed")]
    Archive,
    /// The source of the content failed before its end.
    #[error("the content ended early")]
    Incomplete,
    /// The sandbox ended or broke the protocol.
    #[error("the sandbox is gone")]
    Lost,
    /// Any other error of the kernel.
    #[error("the kernel refused it")]
    Other,
}

impl FileErrorKind {
    /// Every kind.
    const ALL: [FileErrorKind; 17] = [
        FileErrorKind::NotFound,
        FileErrorKind::Exists,
        FileErrorKind::NotADirectory,
        FileErrorKind::IsADirectory,
        FileErrorKind::NotEmpty,
        FileErrorKind::Traversal,
        FileErrorKind::Permission,
        FileErrorKind::Quota,
        FileErrorKind::TooLarge,
        FileErrorKind::NameTooLong,
        FileErrorKind::SpecialFile,
        FileErrorKind::Busy,
        FileErrorKind::CrossesMounts,
        FileErrorKind::Archive,
        FileErrorKind::Incomplete,
        FileErrorKind::Lost,
        FileErrorKind::Other,
    ];

    /// The kind as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            FileErrorKind::NotFound => "not_found",
            FileErrorKind::Exists => "exists",
            FileErrorKind::NotADirectory => "not_a_directory",
            FileErrorKind::IsADirectory => "is_a_directory",
            FileErrorKind::NotEmpty => "not_empty",
            FileErrorKind::Traversal => "traversal",
            FileErrorKind::Permission => "permission",
            FileErrorKind::Quota => "quota",
            FileErrorKind::TooLarge => "too_large",
            FileErrorKind::NameTooLong => "name_too_long",
            FileErrorKind::SpecialFile => "special_file",
            FileErrorKind::Busy => "busy",
            FileErrorKind::CrossesMounts => "crosses_mounts",
            FileErrorKind::Archive => "archive",
            FileErrorKind::Incomplete => "incomplete",
            FileErrorKind::Lost => "lost",
            FileErrorKind::Other => "other",
        }
    }

    /// The kind that a word of [`FileErrorKind::as_str`] names.
    pub fn parse(word: &str) -> Option<FileErrorKind> {
        FileErrorKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Advice for the user, if there is any.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            FileErrorKind::Quota => {
                Some("remove files inside, or raise max_disk_mb or max_inodes in the policy")
            }
            FileErrorKind::NotEmpty => Some("remove it recursively"),
            FileErrorKind::CrossesMounts => Some("copy it and remove the source"),
            FileErrorKind::Busy => Some("try again when other operations have ended"),
            _ => None,
        }
    }
}
