//! Why an image cannot be imported, found or removed.

use std::io;
use std::path::PathBuf;

use stockade_archive::ArchiveError;

use crate::tree::MOST_DEPTH;

/// Why an image cannot be imported, found or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The image has something that is not allowed, or is damaged.
    #[error("the image is refused at {part}: {refusal}")]
    Refused {
        /// The file, layer or entry.
        part: String,
        /// Why.
        refusal: Refusal,
    },
    /// An entry of the archive or of a layer cannot be read or unpacked.
    #[error("the image is refused at {part}")]
    Archive {
        /// The archive or the layer.
        part: String,
        /// The entry and the reason.
        source: ArchiveError,
    },
    /// Not a reference of an image.
    #[error("{} is not a reference such as python:3.11-slim", text.escape_debug())]
    Reference {
        /// The text.
        text: String,
    },
    /// The store has no such image.
    #[error("there is no image {reference} in {}", store.display())]
    Missing {
        /// The reference.
        reference: String,
        /// The store.
        store: PathBuf,
    },
    /// Several images begin with these digits.
    #[error("{reference} is the beginning of several images")]
    Ambiguous {
        /// The digits.
        reference: String,
    },
    /// A sandbox uses the image.
    #[error("a sandbox uses the image {reference}")]
    InUse {
        /// The reference.
        reference: String,
    },
    /// The store has no room for more names.
    #[error("the names of all images in {} are longer than 4 MiB", store.display())]
    Full {
        /// The store.
        store: PathBuf,
    },
    /// The store does not belong to the caller alone.
    #[error("refusing the image store {}: {reason}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Another user can replace the store.
    #[error("refusing the image store {}: {} {reason}", store.display(), path.display())]
    Above {
        /// The store.
        store: PathBuf,
        /// The directory above it.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The store has something that Stockade did not write.
    #[error("the image store is corrupt: {}: {reason}", path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
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

impl ImageError {
    /// Advice for the user.
    pub fn remedy(&self) -> String {
        match self {
            ImageError::Refused { refusal: Refusal::TooLarge, .. } => {
                "raise --max-size, if you trust the image".to_owned()
            }
            ImageError::Refused { refusal: Refusal::TooDeep | Refusal::LongName, .. } => {
                "build the image without it: no option raises this limit".to_owned()
            }
            ImageError::Refused { refusal: Refusal::Several, .. } => {
                "save one image alone: `docker save -o FILE.tar NAME`".to_owned()
            }
            ImageError::Refused { refusal: Refusal::Layout, .. } => {
                "save it with `docker save -o FILE.tar NAME`, or as an OCI layout in a tar archive"
                    .to_owned()
            }
            ImageError::Refused { refusal: Refusal::Machine { .. }, .. } => {
                "save the image of this machine: `docker pull --platform` chooses it".to_owned()
            }
            ImageError::Refused { .. } | ImageError::Archive { .. } => {
                "build or save the image again; nothing of it was kept".to_owned()
            }
            ImageError::Reference { .. } => {
                "write NAME or NAME:TAG, in lower-case letters, digits and `.`, `_`, `-`, `/`"
                    .to_owned()
            }
            ImageError::Missing { .. } => {
                "import it with `stockade image import FILE.tar`; `stockade image ls` lists all"
                    .to_owned()
            }
            ImageError::Ambiguous { .. } => "write more of its digits".to_owned(),
            ImageError::InUse { .. } => "end the sandbox first".to_owned(),
            ImageError::Full { .. } => "remove names with `stockade image rm NAME`".to_owned(),
            ImageError::Unsafe { path, .. } => {
                format!("look at it, then `chown` it to you and `chmod 700 {}`", path.display())
            }
            ImageError::Above { path, .. } => format!(
                "`chmod go-w {}` if it is yours, or set XDG_DATA_HOME to a directory of your own",
                path.display()
            ),
            ImageError::Corrupt { path, .. } => {
                format!("look at it, then remove {}", path.display())
            }
            ImageError::File { .. } => {
                "see that it exists, is yours, and that the disk has room".to_owned()
            }
        }
    }
}

/// Why an image is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The archive is not an image.
    #[error("it is neither an OCI layout nor an archive of `docker save`")]
    Layout,
    /// The archive has several images.
    #[error("the archive has several images")]
    Several,
    /// A JSON document is invalid.
    #[error("it is not the expected JSON: {reason}")]
    Json {
        /// Why.
        reason: String,
    },
    /// A document is too large, or there are too many layers.
    #[error("it has more bytes, entries or layers than allowed")]
    TooLarge,
    /// A path has too many directories above each other.
    #[error("its path has more than {} levels", MOST_DEPTH)]
    TooDeep,
    /// A name is longer than file systems accept.
    #[error("its name is longer than 255 bytes")]
    LongName,
    /// The archive gives the image too many names.
    #[error("the archive has more than 64 names")]
    Names,
    /// The archive lacks a file.
    #[error("the archive does not have it")]
    Absent,
    /// The archive has a file twice.
    #[error("the archive has it twice")]
    Twice,
    /// A digest is not SHA-256 in its usual spelling.
    #[error("its digest is not `sha256:` with 64 lower-case digits")]
    Algorithm,
    /// The content does not match its digest or size.
    #[error("its content does not match its digest or size")]
    Digest,
    /// The manifest and the configuration name different numbers of layers.
    #[error("the manifest and the configuration have different numbers of layers")]
    Layers,
    /// A kind of document or compression that is not supported.
    #[error("{kind} is not supported")]
    Kind {
        /// The media type or compression.
        kind: String,
    },
    /// The image is for another machine.
    #[error("it is for {found}, and this machine is {ours}")]
    Machine {
        /// The image's system and architecture.
        found: String,
        /// This machine's.
        ours: String,
    },
    /// A whiteout that names no file, has content, or hides what its own layer has.
    #[error("the whiteout names no file, is not an empty file, or follows the entry it removes")]
    Whiteout,
    /// A path leads through something that is not a directory.
    #[error("its path leads through a file, a broken link or a link that turns in a circle")]
    Path,
    /// A hard link to something that is not a file of the image.
    #[error("the hard link is not to a file of the image")]
    HardLink,
    /// The owner or mode cannot be read.
    #[error("its owner or mode cannot be read")]
    Attributes,
}
