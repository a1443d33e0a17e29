//! Why the store cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use stockade_archive::ArchiveError;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Not a valid name of a session or a checkpoint.
    #[error("{name:?} is not a valid name of a checkpoint")]
    Name {
        /// The text.
        name: String,
    },
    /// No checkpoint has this name.
    #[error("there is no checkpoint {reference}")]
    Missing {
        /// The name.
        reference: String,
    },
    /// A checkpoint has this name already.
    #[error("a checkpoint {reference} exists already")]
    Taken {
        /// The name.
        reference: String,
    },
    /// The store would become larger than its quota.
    #[error("the store of checkpoints would have more than {quota} bytes")]
    Full {
        /// The quota.
        quota: u64,
    },
    /// A tree has more entries than a checkpoint may have.
    #[error("the tree has more than {most} entries")]
    TooManyEntries {
        /// The limit.
        most: u64,
    },
    /// A tree has more content than the sandbox's files may have.
    #[error("the sandbox sent more bytes than its files may have")]
    TooManyBytes,
    /// The directory of the store does not belong to the caller alone.
    #[error("refusing the store of checkpoints {}: {reason}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file of the store is not what Stockade wrote.
    #[error("the store of checkpoints is damaged: {}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The tree or the parcel is not valid.
    #[error("the tree is not valid")]
    Tree {
        /// Why.
        #[source]
        source: ArchiveError,
    },
    /// A parcel is not one of Stockade's.
    #[error("the file is not an exported checkpoint: {reason}")]
    Parcel {
        /// What is wrong with it.
        reason: String,
    },
    /// A path of the host leads elsewhere, or is not a directory.
    #[error("cannot use {}: {reason}", path.display())]
    Host {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    /// Whether a file is missing that another process may have removed.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, StoreError::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Advice for the user.
    pub fn remedy(&self) -> String {
        match self {
            StoreError::Name { .. } => {
                "use letters, digits, `_`, `.` and `-`, at most 63 of them".to_owned()
            }
            StoreError::Missing { .. } => {
                "list the checkpoints with `stockade checkpoints`".to_owned()
            }
            StoreError::Taken { reference } => format!(
                "choose another name, or remove it with `stockade checkpoint rm {reference}`"
            ),
            StoreError::Full { .. } => {
                "remove checkpoints with `stockade checkpoint rm` and run `stockade store gc`, or \
                 set STOCKADE_STORE_MB to more megabytes"
                    .to_owned()
            }
            StoreError::TooManyEntries { .. } => {
                "remove files that no checkpoint needs, such as caches".to_owned()
            }
            StoreError::TooManyBytes => {
                "end the session: its guest does not tell the truth".to_owned()
            }
            StoreError::Unsafe { path, .. } => format!(
                "look at it, then move {} away or name another directory in STOCKADE_STORE",
                path.display()
            ),
            StoreError::Damaged { .. } => {
                "see what is damaged with `stockade store verify`".to_owned()
            }
            StoreError::Tree { .. } => {
                "remove the entry from the sandbox, and try again".to_owned()
            }
            StoreError::Parcel { .. } => {
                "name a file that `stockade export` wrote, and copy it again".to_owned()
            }
            StoreError::Host { .. } => "name a directory without links on its path".to_owned(),
            StoreError::File { .. } => {
                "see that the directory exists, belongs to you and has room, or name another in \
                 STOCKADE_STORE"
                    .to_owned()
            }
        }
    }
}

pub(crate) fn file(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::File { doing, path: path.clone(), source }
}

pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), reason: reason.into() }
}

/// The error of a stream that carries a tree.
pub fn stream_error(source: io::Error) -> ArchiveError {
    ArchiveError::Stream { source }
}

/// Keeps an error of the store that passed through a stream.
pub(crate) fn tree(source: ArchiveError) -> StoreError {
    match source {
        ArchiveError::Stream { source } => match source.downcast::<StoreError>() {
            Ok(error) => error,
            Err(source) => StoreError::Tree { source: ArchiveError::Stream { source } },
        },
        source => StoreError::Tree { source },
    }
}
