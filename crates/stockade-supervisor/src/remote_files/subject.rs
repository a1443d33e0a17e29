//! What an operation is about, and the supervisor's answers to it.

use stockade_api::{Failure, FileResult, FileView, Frame, PathBytes, Reply, read_frame};
use stockade_provider::{
    FileEntry, FileError, FileErrorKind, FileKind, FileOperation, FilePath, FileStat,
};
use tokio::io::AsyncRead;
use tokio::net::UnixStream;

/// What an operation is about, for its errors.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) operation: FileOperation,
    pub(super) path: FilePath,
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Subject {
    pub(super) fn new(operation: FileOperation, path: &FilePath) -> Subject {
        Subject { operation, path: path.clone() }
    }

    pub(super) fn failed(&self, kind: FileErrorKind, source: Option<Cause>) -> FileError {
        FileError { operation: self.operation, path: self.path.clone(), kind, source }
    }

    pub(super) fn lost(&self, cause: impl Into<Cause>) -> FileError {
        self.failed(FileErrorKind::Lost, Some(cause.into()))
    }

    pub(super) fn unexpected(&self) -> FileError {
        self.lost("the supervisor sent something unexpected; use one version of Stockade for both")
    }

    /// The path as the wire has it.
    pub(super) fn bytes(&self) -> Result<PathBytes, FileError> {
        PathBytes::try_from(self.path.as_bytes().to_vec())
            .map_err(|error| self.failed(FileErrorKind::NameTooLong, Some(Box::new(error))))
    }

    /// The error that the supervisor reports.
    pub(super) fn reported(&self, kind: &str, failure: Failure) -> FileError {
        match FileErrorKind::parse(kind) {
            Some(FileErrorKind::Other) | None => {
                self.failed(FileErrorKind::Other, Some(failure.message.into()))
            }
            Some(kind) => self.failed(kind, None),
        }
    }

    /// The next piece of a stream; `None` at its end.
    pub(super) async fn piece(
        &self,
        stream: &mut UnixStream,
    ) -> Result<Option<Vec<u8>>, FileError> {
        match read_frame(stream).await.map_err(|error| self.lost(error))? {
            Frame::Output(bytes) => Ok(Some(bytes)),
            Frame::Reply(Reply::File(_)) => Ok(None),
            Frame::Reply(Reply::FileFailed { kind, failure }) => Err(self.reported(&kind, failure)),
            Frame::Reply(Reply::Failed(failure)) => Err(self.lost(failure.message)),
            _ => Err(self.unexpected()),
        }
    }

    /// The result of an operation, with the entries of every reply.
    pub(super) async fn result(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<FileResult, FileError> {
        let mut entries = Vec::new();
        loop {
            match read_frame(stream).await.map_err(|error| self.lost(error))? {
                Frame::Reply(Reply::File(mut result)) => {
                    entries.append(&mut result.entries);
                    if !result.more {
                        return Ok(FileResult { entries, ..result });
                    }
                }
                Frame::Reply(Reply::FileFailed { kind, failure }) => {
                    return Err(self.reported(&kind, failure));
                }
                Frame::Reply(Reply::Failed(failure)) => return Err(self.lost(failure.message)),
                _ => return Err(self.unexpected()),
            }
        }
    }

    pub(super) fn entry(&self, view: FileView) -> Result<FileEntry, FileError> {
        let kind = match view.kind.as_str() {
            "file" => FileKind::File,
            "directory" => FileKind::Directory,
            "link" => FileKind::Link,
            "special" => FileKind::Special,
            _ => return Err(self.unexpected()),
        };
        let path = FilePath::new(view.path.as_bytes()).map_err(|error| self.lost(error))?;
        let FileView { bytes, mode, modified, target, .. } = view;
        let target = target.map(|target| target.as_bytes().to_vec());
        Ok(FileEntry { path, stat: FileStat { kind, bytes, mode, modified, target } })
    }
}
