//! Why an operation on the tree failed, and what that is called elsewhere.

use std::io;

use rustix::io::Errno;
use stockade_provider::FileErrorKind;
use wasmtime_wasi::p2::FsError;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    Loop,
    ReadOnly,
    Full,
    TooManyFiles,
    NameTooLong,
    Invalid,
    CrossesMounts,
}

impl Fault {
    fn errno(self) -> Errno {
        match self {
            Fault::NotFound => Errno::NOENT,
            Fault::Exists => Errno::EXIST,
            Fault::NotADirectory => Errno::NOTDIR,
            Fault::IsADirectory => Errno::ISDIR,
            Fault::NotEmpty => Errno::NOTEMPTY,
            Fault::Loop => Errno::LOOP,
            Fault::ReadOnly => Errno::ROFS,
            Fault::Full => Errno::NOSPC,
            Fault::TooManyFiles => Errno::DQUOT,
            Fault::NameTooLong => Errno::NAMETOOLONG,
            Fault::Invalid => Errno::INVAL,
            Fault::CrossesMounts => Errno::XDEV,
        }
    }

    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Fault::NotFound => ErrorCode::NoEntry,
            Fault::Exists => ErrorCode::Exist,
            Fault::NotADirectory => ErrorCode::NotDirectory,
            Fault::IsADirectory => ErrorCode::IsDirectory,
            Fault::NotEmpty => ErrorCode::NotEmpty,
            Fault::Loop => ErrorCode::Loop,
            Fault::ReadOnly => ErrorCode::ReadOnly,
            Fault::Full => ErrorCode::InsufficientSpace,
            // WASI has no code for too many open files.
            Fault::TooManyFiles => ErrorCode::Quota,
            Fault::NameTooLong => ErrorCode::NameTooLong,
            Fault::Invalid => ErrorCode::Invalid,
            Fault::CrossesMounts => ErrorCode::CrossDevice,
        }
    }

    pub(crate) fn kind(self) -> FileErrorKind {
        match self {
            Fault::NotFound => FileErrorKind::NotFound,
            Fault::Exists => FileErrorKind::Exists,
            Fault::NotADirectory => FileErrorKind::NotADirectory,
            Fault::IsADirectory => FileErrorKind::IsADirectory,
            Fault::NotEmpty => FileErrorKind::NotEmpty,
            Fault::Loop => FileErrorKind::Traversal,
            Fault::ReadOnly => FileErrorKind::Permission,
            Fault::Full => FileErrorKind::Quota,
            Fault::TooManyFiles => FileErrorKind::Busy,
            Fault::NameTooLong => FileErrorKind::NameTooLong,
            Fault::Invalid => FileErrorKind::Other,
            Fault::CrossesMounts => FileErrorKind::CrossesMounts,
        }
    }
}

impl From<Fault> for FsError {
    fn from(fault: Fault) -> FsError {
        fault.code().into()
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        fault.errno().into()
    }
}
