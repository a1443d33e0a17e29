//! Operations on files, each on a stream of its own.
//!
//! Everything that the guest sends is hostile: lengths, names, the number of entries, and whether an
//! answer fits the question.

mod answer;
mod body;
mod send;
mod watch;

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::io::AsyncReadExt;
use stockade_provider::{
    FileBytes, FileEntry, FileError, FileErrorKind, FileOperation, FilePart, FilePath, FileStat,
    FileWatch, FileWriteMode, FileWriting, Files, FinalLink, Transfer, WritablePlace,
};
use stockade_wire::{
    self as wire, FileDone, FileRequest, FileWrite, PathBytes, Role, StatePlace, write_message,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::LinkError;
use super::ledger::Counted;
use super::streams::Shared;
use answer::{Subject, entry, stat};
use body::Body;
use send::send;
use watch::Watch;

/// The files behind a link.
#[derive(Debug)]
pub(super) struct LinkFiles {
    pub(super) streams: Arc<Shared>,
    pub(super) operations: Arc<Semaphore>,
    /// Where relative paths start.
    pub(super) workspace: Vec<u8>,
    pub(super) places: Vec<WritablePlace>,
}

/// One operation that the guest carries out.
pub(super) struct Operation {
    stream: Counted,
    subject: Subject,
    permit: OwnedSemaphorePermit,
}

impl LinkFiles {
    /// Sends a request, once few enough operations run.
    async fn begin(
        &self,
        operation: FileOperation,
        path: &FilePath,
        request: FileRequest,
    ) -> Result<Operation, FileError> {
        let permit = Arc::clone(&self.operations).acquire_owned().await;
        let subject = Subject { operation, path: path.clone() };
        let permit = permit.map_err(|closed| subject.failed(FileErrorKind::Lost, closed))?;
        self.send(subject, request, permit).await
    }

    async fn send(
        &self,
        subject: Subject,
        request: FileRequest,
        permit: OwnedSemaphorePermit,
    ) -> Result<Operation, FileError> {
        let opened = self.streams.stream(0, Role::Files);
        let mut stream = opened.map_err(|error| subject.link_failed(error))?;
        let sent = write_message(&mut stream, &request).await;
        sent.map_err(|source| subject.link_failed(LinkError::Say { source }))?;
        Ok(Operation { stream, subject, permit })
    }

    /// The path as the guest takes it: absolute.
    fn path(&self, operation: FileOperation, path: &FilePath) -> Result<PathBytes, FileError> {
        let bytes = match path.is_absolute() {
            true => path.as_bytes().to_vec(),
            false => [&self.workspace, b"/".as_slice(), path.as_bytes()].concat(),
        };
        let subject = Subject { operation, path: path.clone() };
        PathBytes::try_from(bytes).map_err(|long| subject.failed(FileErrorKind::NameTooLong, long))
    }
}

impl Operation {
    /// The bytes that the guest sends.
    fn body(self) -> Body {
        Body::new(self.stream, self.subject, self.permit)
    }

    /// The result of an operation without bytes.
    async fn done(self) -> Result<FileDone, FileError> {
        body::only_reply(self.stream, &self.subject).await
    }

    /// Sends bytes; the guest may answer before their end.
    async fn exchange(self, content: FileBytes) -> Result<FileDone, FileError> {
        let Operation { stream, subject, permit } = self;
        let (reader, writer) = stream.split();
        let done = {
            let mut sending = std::pin::pin!(send(content, writer, &subject));
            let mut reply = std::pin::pin!(body::only_reply(reader, &subject));
            tokio::select! {
                biased;
                done = &mut reply => done,
                sent = &mut sending => match sent {
                    Ok(()) => reply.await,
                    Err(error) => Err(error),
                },
            }
        };
        drop(permit);
        done
    }
}

impl Files for LinkFiles {
    fn read<'a>(
        &'a self,
        path: &'a FilePath,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Read;
            let FilePart { offset, length } = part;
            let request = FileRequest::Read { path: self.path(operation, path)?, offset, length };
            let body = self.begin(operation, path, request).await?.body();
            Ok(Box::new(body.started(length).await?.compat()) as FileBytes)
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a FilePath,
        how: FileWriting,
        content: FileBytes,
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Write;
            let mode = match how.mode {
                FileWriteMode::Replace => FileWrite::Replace,
                FileWriteMode::Create => FileWrite::Create,
                FileWriteMode::Append => FileWrite::Append,
            };
            let (executable, inside) = (how.executable, self.path(operation, path)?);
            let request = FileRequest::Write { path: inside, mode, executable };
            let done = self.begin(operation, path, request).await?.exchange(content).await?;
            Ok(done.bytes)
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a FilePath,
        depth: u32,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::List;
            let inside = self.path(operation, path)?;
            let request = FileRequest::List { path: inside, depth, most: most as u64 };
            let mut body = self.begin(operation, path, request).await?.body();
            let mut entries = Vec::new();
            // A hostile guest may send longer entries than any file system has.
            let mut bytes_left = MAX_LIST_BYTES;
            while let Some(next) = body.message::<wire::FileEntry>().await? {
                let next = entry(next).map_err(|what| body.subject().breach(what))?;
                let bytes = size_of::<FileEntry>() + next.path.as_bytes().len();
                let bytes = bytes + next.stat.target.as_ref().map_or(0, Vec::len);
                if entries.len() == most || bytes > bytes_left {
                    return Err(body.subject().of(FileErrorKind::TooLarge));
                }
                bytes_left -= bytes;
                entries.push(next);
            }
            Ok(entries)
        })
    }

    fn stat<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileStat, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Stat;
            let follow = link == FinalLink::Follow;
            let request = FileRequest::Stat { path: self.path(operation, path)?, follow };
            let asked = self.begin(operation, path, request).await?;
            let subject = asked.subject.clone();
            let found = asked.done().await?.stat;
            found.map(stat).ok_or_else(|| subject.breach("it described nothing"))
        })
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a FilePath,
        parents: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let operation = FileOperation::MakeDirectory;
            let inside = self.path(operation, path)?;
            let request = FileRequest::MakeDirectory { path: inside, parents };
            self.begin(operation, path, request).await?.done().await.map(|_| ())
        })
    }

    fn rename<'a>(
        &'a self,
        from: &'a FilePath,
        to: &'a FilePath,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Rename;
            let inside = (self.path(operation, from)?, self.path(operation, to)?);
            let request = FileRequest::Move { from: inside.0, to: inside.1, replace };
            self.begin(operation, from, request).await?.done().await.map(|_| ())
        })
    }

    fn remove<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<bool, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Remove;
            let request = FileRequest::Remove { path: self.path(operation, path)?, recursive };
            Ok(self.begin(operation, path, request).await?.done().await?.changed)
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<Box<dyn FileWatch>, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Watch;
            let subject = Subject { operation, path: path.clone() };
            // A watch may last forever, so waiting for another to end could too.
            let permit = Arc::clone(&self.operations).try_acquire_owned();
            let permit = permit.map_err(|full| subject.failed(FileErrorKind::Busy, full))?;
            let request = FileRequest::Watch { path: self.path(operation, path)?, recursive };
            let body = self.send(subject, request, permit).await?.body();
            Ok(Box::new(Watch::started(body).await?) as Box<dyn FileWatch>)
        })
    }

    fn upload<'a>(
        &'a self,
        path: &'a FilePath,
        archive: FileBytes,
    ) -> BoxFuture<'a, Result<Transfer, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Upload;
            let request = FileRequest::Upload { path: self.path(operation, path)? };
            let done = self.begin(operation, path, request).await?.exchange(archive).await?;
            Ok(Transfer { bytes: done.bytes, left_out: done.left_out })
        })
    }

    fn download<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let operation = FileOperation::Download;
            let follow = link == FinalLink::Follow;
            let request = FileRequest::Download { path: self.path(operation, path)?, follow };
            let body = self.begin(operation, path, request).await?.body();
            Ok(Box::new(body.started(None).await?.compat()) as FileBytes)
        })
    }

    fn places(&self) -> Vec<WritablePlace> {
        self.places.clone()
    }

    fn capture(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let (operation, subject) = (FileOperation::Capture, root());
            let request = FileRequest::Capture { places: self.state_places(operation)? };
            let body = self.begin(operation, &subject, request).await?.body();
            Ok(Box::new(body.started(None).await?.compat()) as FileBytes)
        })
    }

    fn digest(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let (operation, subject) = (FileOperation::Digest, root());
            let request = FileRequest::Digest { places: self.state_places(operation)? };
            let body = self.begin(operation, &subject, request).await?.body();
            Ok(Box::new(body.started(None).await?.compat()) as FileBytes)
        })
    }

    fn fill(&self, tree: FileBytes) -> BoxFuture<'_, Result<Transfer, FileError>> {
        Box::pin(async move {
            let (operation, subject) = (FileOperation::Fill, root());
            let request = FileRequest::Fill { places: self.state_places(operation)? };
            let done = self.begin(operation, &subject, request).await?.exchange(tree).await?;
            Ok(Transfer { bytes: done.bytes, left_out: done.left_out })
        })
    }
}

impl LinkFiles {
    fn state_places(&self, operation: FileOperation) -> Result<Vec<StatePlace>, FileError> {
        let place = |place: &WritablePlace| {
            let skip = place.skip.iter().cloned().map(PathBytes::try_from);
            let skip = skip.collect::<Result<_, _>>().expect("the wall's own names are short");
            let path = self.path(operation, &place.path)?;
            Ok(StatePlace { path, changes: place.base.is_some(), skip })
        };
        self.places.iter().map(place).collect()
    }
}

/// What an operation on all places is about.
fn root() -> FilePath {
    FilePath::new(&b"/"[..]).expect("the root is a path")
}

/// The maximum size of a list in memory.
const MAX_LIST_BYTES: usize = 64 << 20;
