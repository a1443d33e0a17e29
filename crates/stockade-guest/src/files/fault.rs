//! Why an operation failed.

use std::io;

use rustix::io::Errno;
use stockade_wire::{FileFailure, FileFault, PathBytes};

/// Why an operation failed, before the path is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FileFault,
    pub(super) errno: Option<i32>,
}

/// A fault, and the entry of a tree or an archive that caused it, if it is one.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    pub(super) at: Option<PathBytes>,
}

impl Failed {
    pub(super) fn about(self, path: &PathBytes) -> FileFailure {
        let Fault { kind, errno } = self.fault;
        FileFailure { fault: kind, errno, path: self.at.unwrap_or_else(|| path.clone()) }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed { fault, at: None }
    }
}

impl From<FileFault> for Fault {
    fn from(kind: FileFault) -> Fault {
        Fault { kind, errno: None }
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        let kind = match errno {
            Errno::NOENT => FileFault::NotFound,
            Errno::EXIST => FileFault::Exists,
            Errno::NOTDIR => FileFault::NotADirectory,
            Errno::ISDIR => FileFault::IsADirectory,
            Errno::NOTEMPTY => FileFault::NotEmpty,
            // A path that was no link before has become one.
            Errno::LOOP => FileFault::Traversal,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => FileFault::Permission,
            Errno::NOSPC | Errno::DQUOT => FileFault::Quota,
            Errno::FBIG => FileFault::TooLarge,
            Errno::NAMETOOLONG => FileFault::NameTooLong,
            // Opening a socket, or a FIFO without a reader, without blocking.
            Errno::NXIO => FileFault::SpecialFile,
            Errno::BUSY | Errno::TXTBSY | Errno::MFILE | Errno::NFILE | Errno::AGAIN => {
                FileFault::Busy
            }
            Errno::XDEV => FileFault::CrossesMounts,
            _ => FileFault::Other,
        };
        Fault { kind, errno: Some(errno.raw_os_error()) }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match (Errno::from_io_error(&error), error.kind()) {
            (Some(errno), _) => Fault::from(errno),
            // The chunks of the host ended early.
            (None, io::ErrorKind::UnexpectedEof) => FileFault::Incomplete.into(),
            (None, _) => FileFault::Other.into(),
        }
    }
}
