//! Why an archive could not be packed or unpacked.

use std::io;

/// Why an archive could not be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive has something that is not allowed.
    #[error("the archive is refused at {}: {refusal}", name.escape_ascii())]
    Refused {
        /// The entry, as far as it is known.
        name: Vec<u8>,
        /// Why.
        refusal: Refusal,
    },
    /// Reading or writing the archive itself failed.
    #[error("cannot read or write the archive")]
    Stream {
        /// The error of the stream.
        #[source]
        source: io::Error,
    },
    /// The file system refused a file.
    #[error("cannot use the file {}", name.escape_ascii())]
    File {
        /// The path of the file in the archive.
        name: Vec<u8>,
        /// The error of the kernel.
        #[source]
        source: rustix::io::Errno,
    },
}

/// Why an archive or one of its entries is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The bytes are not a tar archive.
    #[error("it is not a tar archive, or damaged")]
    Damaged,
    /// The archive ends in the middle of an entry.
    #[error("it ends early")]
    Truncated,
    /// A name is absolute, empty, or has `..` or a NUL byte.
    #[error("the name is absolute, empty, or has `..`")]
    Name,
    /// A name or a target is too long.
    #[error("the name is too long")]
    LongName,
    /// A kind of entry that is not unpacked, such as a sparse file.
    #[error("this kind of entry is not supported")]
    Kind,
    /// Two sizes for one entry.
    #[error("the entry has two different sizes")]
    Size,
    /// Two entries with one name.
    #[error("the archive has this name twice")]
    Duplicate,
    /// A link that leads out of the directory.
    #[error("the link leads out of the directory")]
    Link,
    /// A hard link to something that this archive did not create.
    #[error("the hard link is to a file that is not in the archive")]
    HardLink,
    /// A device, FIFO or socket.
    #[error("it is a device, FIFO or socket")]
    Special,
    /// The first component differs from that of the first entry.
    #[error("the archive has more than one file or directory")]
    Roots,
    /// More entries or bytes than allowed, or a tree that is too deep.
    #[error("the archive has more entries, bytes or levels than allowed")]
    TooLarge,
    /// A file became shorter while it was packed.
    #[error("the file changed while it was read")]
    Changed,
}
