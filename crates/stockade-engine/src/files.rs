//! The files of a session, with an event for every operation.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::future::BoxFuture;
use stockade_provider::{
    FileBytes, FileEntry, FileError, FileErrorKind, FileOperation, FilePart, FilePath, FileStat,
    FileWatch, FileWriting, Files, FinalLink, Transfer, WritablePlace,
};
use stockade_record as record;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::RwLock;

use crate::record::Record;

/// Files whose operations are recorded.
pub(crate) struct RecordedFiles {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) record: Record,
    /// Held while files change, so that no checkpoint has half of a change.
    pub(crate) change_lock: Arc<RwLock<()>>,
}

impl RecordedFiles {
    /// Fails if the record of the session cannot be written.
    fn begin(&self, operation: FileOperation, path: &FilePath) -> Result<Subject, FileError> {
        let subject = Subject { record: self.record.clone(), operation, path: path.clone() };
        match self.record.check() {
            Ok(()) => Ok(subject),
            Err(error) => Err(subject.unrecorded(error)),
        }
    }

    /// Performs an operation and records it; `bytes` counts its content.
    async fn perform<T>(
        &self,
        operation: FileOperation,
        path: &FilePath,
        performed: impl Future<Output = Result<T, FileError>>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T, FileError> {
        let subject = self.begin(operation, path)?;
        let changes =
            !matches!(operation, FileOperation::List | FileOperation::Stat | FileOperation::Watch);
        let _held = if changes { Some(self.change_lock.read().await) } else { None };
        let result = performed.await;
        subject.record_end(result.as_ref().map_or(0, bytes), outcome(&result))?;
        result
    }

    /// The same for an operation that returns a stream: recorded when that ends.
    async fn open(
        &self,
        operation: FileOperation,
        path: &FilePath,
        opened: impl Future<Output = Result<FileBytes, FileError>>,
    ) -> Result<FileBytes, FileError> {
        let subject = self.begin(operation, path)?;
        match opened.await {
            Ok(bytes) => Ok(Box::new(RecordedBytes { bytes, read: 0, subject: Some(subject) })),
            Err(error) => {
                subject.record_end(0, error.kind.as_str())?;
                Err(error)
            }
        }
    }
}

fn outcome<T>(result: &Result<T, FileError>) -> &'static str {
    match result {
        Ok(_) => record::FileOperation::DONE,
        Err(error) => error.kind.as_str(),
    }
}

/// One operation and its record.
struct Subject {
    record: Record,
    operation: FileOperation,
    path: FilePath,
}

impl Subject {
    fn record_end(&self, bytes: u64, outcome: &str) -> Result<(), FileError> {
        let (operation, path) = (self.operation.as_str().to_owned(), self.path.to_string());
        let outcome = outcome.to_owned();
        let event = record::FileOperation { operation, path, bytes, outcome };
        self.record.file_operation(event).map_err(|error| self.unrecorded(error))
    }

    fn unrecorded(&self, error: crate::RunError) -> FileError {
        FileError {
            operation: self.operation,
            path: self.path.clone(),
            kind: FileErrorKind::Other,
            source: Some(Box::new(error)),
        }
    }
}

/// A stream that records its end.
struct RecordedBytes {
    bytes: FileBytes,
    read: u64,
    /// Until the end is recorded.
    subject: Option<Subject>,
}

impl AsyncRead for RecordedBytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.bytes).poll_read(context, buffer));
        let read = buffer.filled().len() - before;
        self.read += read as u64;
        let ended = match &result {
            Ok(()) if read == 0 && buffer.remaining() > 0 => Some(record::FileOperation::DONE),
            Ok(()) => None,
            Err(error) => Some(kind_of(error).as_str()),
        };
        if let Some(outcome) = ended
            && let Some(subject) = self.subject.take()
        {
            subject.record_end(self.read, outcome)?;
        }
        Poll::Ready(result)
    }
}

impl Drop for RecordedBytes {
    fn drop(&mut self) {
        if let Some(subject) = self.subject.take() {
            // A failure ends the session, which watches the record.
            let _ = subject.record_end(self.read, record::FileOperation::STOPPED);
        }
    }
}

fn kind_of(error: &io::Error) -> FileErrorKind {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>());
    inner.map_or(FileErrorKind::Lost, |inner| inner.kind)
}

impl Files for RecordedFiles {
    fn read<'a>(
        &'a self,
        path: &'a FilePath,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(self.open(FileOperation::Read, path, self.files.read(path, part)))
    }

    fn write<'a>(
        &'a self,
        path: &'a FilePath,
        how: FileWriting,
        content: FileBytes,
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        let written = self.files.write(path, how, content);
        Box::pin(self.perform(FileOperation::Write, path, written, |bytes| *bytes))
    }

    fn list<'a>(
        &'a self,
        path: &'a FilePath,
        depth: u32,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        let listed = self.files.list(path, depth, most);
        Box::pin(self.perform(FileOperation::List, path, listed, |_| 0))
    }

    fn stat<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileStat, FileError>> {
        let found = self.files.stat(path, link);
        Box::pin(self.perform(FileOperation::Stat, path, found, |_| 0))
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a FilePath,
        parents: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        let made = self.files.make_directory(path, parents);
        Box::pin(self.perform(FileOperation::MakeDirectory, path, made, |()| 0))
    }

    fn rename<'a>(
        &'a self,
        from: &'a FilePath,
        to: &'a FilePath,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        let renamed = self.files.rename(from, to, replace);
        Box::pin(self.perform(FileOperation::Rename, from, renamed, |()| 0))
    }

    fn remove<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<bool, FileError>> {
        let removed = self.files.remove(path, recursive);
        Box::pin(self.perform(FileOperation::Remove, path, removed, |_| 0))
    }

    fn watch<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<Box<dyn FileWatch>, FileError>> {
        let watched = self.files.watch(path, recursive);
        Box::pin(self.perform(FileOperation::Watch, path, watched, |_| 0))
    }

    fn upload<'a>(
        &'a self,
        path: &'a FilePath,
        archive: FileBytes,
    ) -> BoxFuture<'a, Result<Transfer, FileError>> {
        let unpacked = self.files.upload(path, archive);
        Box::pin(self.perform(FileOperation::Upload, path, unpacked, |done| done.bytes))
    }

    fn download<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(self.open(FileOperation::Download, path, self.files.download(path, link)))
    }

    // Checkpoints are recorded as such, by the session.
    fn places(&self) -> Vec<WritablePlace> {
        self.files.places()
    }

    fn capture(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        self.files.capture()
    }

    fn digest(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        self.files.digest()
    }

    fn fill(&self, tree: FileBytes) -> BoxFuture<'_, Result<Transfer, FileError>> {
        self.files.fill(tree)
    }
}
