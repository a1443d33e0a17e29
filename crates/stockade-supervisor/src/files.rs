//! Serves an operation on the files of a session.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use stockade_api::{
    Failure, FileMode, FileParams, FileResult, FileView, Frame, PathBytes, Reply, read_frame,
    write_frame,
};
use stockade_provider::{
    FileBytes, FileEntry, FileError, FileErrorKind, FileKind, FileOperation, FilePart, FilePath,
    FilePathError, FileStat, FileWriteMode, FileWriting, Files, FinalLink, chain,
};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;

use crate::connection::of_run;
use crate::supervisor::Shared;
use crate::watch;

/// The maximum number of entries of a list.
const MOST_ENTRIES: usize = 100_000;
/// How many entries one reply has: each needs at most a few kB, and a frame has 1 MiB.
const ENTRIES_AT_ONCE: usize = 20;
const CHUNK_BYTES: usize = 64 << 10;

/// Carries out an operation and answers it.
pub(crate) async fn serve(mut stream: UnixStream, params: FileParams, shared: &Arc<Shared>) {
    let files = match shared.session.files() {
        Ok(files) => files,
        Err(error) => {
            let failed = Frame::Reply(Reply::Failed(of_run(&error)));
            let _ = write_frame(&mut stream, &failed).await;
            return;
        }
    };
    if let FileParams::Watch { path, recursive } = params {
        return watch::serve(stream, &*files, &path, recursive, shared).await;
    }
    let (reader, mut writer) = stream.into_split();
    let mut ending = shared.ending.subscribe();
    let done = async {
        match operate(&*files, params, reader).await {
            Ok(Answer::Done(result)) => Ok((result, None)),
            Ok(Answer::Bytes(bytes, subject)) => {
                Ok((FileResult::default(), Some((bytes, subject))))
            }
            Err(error) => Err(error),
        }
    };
    // An operation that runs when the session ends fails by itself; only the client's may hang.
    let reply = async {
        let (mut result, bytes) = match done.await {
            Ok(done) => done,
            Err(error) => return Some(failed(&error)),
        };
        if let Some((bytes, subject)) = bytes {
            match send(bytes, &subject, &mut writer).await {
                Ok(Some(sent)) => result.bytes = sent,
                // The client has left.
                Ok(None) => return None,
                Err(error) => return Some(failed(&error)),
            }
        }
        while result.entries.len() > ENTRIES_AT_ONCE {
            let rest = result.entries.split_off(ENTRIES_AT_ONCE);
            let entries = std::mem::replace(&mut result.entries, rest);
            let part = FileResult { entries, more: true, ..FileResult::default() };
            write_frame(&mut writer, &Frame::Reply(Reply::File(part))).await.ok()?;
        }
        Some(Reply::File(result))
    };
    let reply = tokio::select! {
        reply = reply => reply,
        _ = ending.wait_for(|ending| *ending) => None,
    };
    if let Some(reply) = reply {
        let _ = write_frame(&mut writer, &Frame::Reply(reply)).await;
    }
}

/// The result of an operation, or the bytes to send first.
enum Answer {
    Done(FileResult),
    Bytes(FileBytes, (FileOperation, FilePath)),
}

async fn operate(
    files: &dyn Files,
    params: FileParams,
    reader: OwnedReadHalf,
) -> Result<Answer, FileError> {
    let plain = FileResult::default;
    let done = match params {
        FileParams::Read { path, offset, length } => {
            let path = checked(FileOperation::Read, &path)?;
            let bytes = files.read(&path, FilePart { offset, length }).await?;
            return Ok(Answer::Bytes(bytes, (FileOperation::Read, path)));
        }
        FileParams::Download { path, follow } => {
            let path = checked(FileOperation::Download, &path)?;
            let bytes = files.download(&path, link(follow)).await?;
            return Ok(Answer::Bytes(bytes, (FileOperation::Download, path)));
        }
        FileParams::Write { path, mode, executable } => {
            let path = checked(FileOperation::Write, &path)?;
            let mode = match mode {
                FileMode::Replace => FileWriteMode::Replace,
                FileMode::Create => FileWriteMode::Create,
                FileMode::Append => FileWriteMode::Append,
            };
            let how = FileWriting { mode, executable };
            FileResult { bytes: files.write(&path, how, received(reader)).await?, ..plain() }
        }
        FileParams::Upload { path } => {
            let path = checked(FileOperation::Upload, &path)?;
            let done = files.upload(&path, received(reader)).await?;
            FileResult { bytes: done.bytes, left_out: done.left_out, ..plain() }
        }
        FileParams::List { path, depth } => {
            let path = checked(FileOperation::List, &path)?;
            let entries = files.list(&path, depth, MOST_ENTRIES).await?;
            let view = |entry: FileEntry| view(&entry.path, entry.stat);
            FileResult { entries: entries.into_iter().filter_map(view).collect(), ..plain() }
        }
        FileParams::Stat { path, follow } => {
            let path = checked(FileOperation::Stat, &path)?;
            let found = files.stat(&path, link(follow)).await?;
            FileResult { entries: view(&path, found).into_iter().collect(), ..plain() }
        }
        FileParams::MakeDirectory { path, parents } => {
            let path = checked(FileOperation::MakeDirectory, &path)?;
            files.make_directory(&path, parents).await.map(|()| plain())?
        }
        FileParams::Move { from, to, replace } => {
            let from = checked(FileOperation::Rename, &from)?;
            let to = checked(FileOperation::Rename, &to)?;
            files.rename(&from, &to, replace).await.map(|()| plain())?
        }
        FileParams::Remove { path, recursive } => {
            let path = checked(FileOperation::Remove, &path)?;
            FileResult { changed: files.remove(&path, recursive).await?, ..plain() }
        }
        FileParams::Watch { .. } => unreachable!("a watch is served apart"),
    };
    Ok(Answer::Done(done))
}

fn link(follow: bool) -> FinalLink {
    if follow { FinalLink::Follow } else { FinalLink::Keep }
}

/// A path of a client. The error shows the part of it that can be shown.
pub(crate) fn checked(operation: FileOperation, path: &PathBytes) -> Result<FilePath, FileError> {
    FilePath::new(path.as_bytes()).map_err(|error| {
        let kind = match error {
            FilePathError::TooLong => FileErrorKind::NameTooLong,
            _ => FileErrorKind::Traversal,
        };
        let shown = String::from_utf8_lossy(path.as_bytes()).replace("..", "…");
        let shown = FilePath::new(shown).or_else(|_| FilePath::new("."));
        let path = shown.expect("a dot is a path");
        FileError { operation, path, kind, source: Some(Box::new(error)) }
    })
}

fn view(path: &FilePath, stat: FileStat) -> Option<FileView> {
    let kind = match stat.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Special => "special",
    };
    Some(FileView {
        path: PathBytes::try_from(path.as_bytes().to_vec()).ok()?,
        kind: kind.to_owned(),
        bytes: stat.bytes,
        mode: stat.mode,
        modified: stat.modified,
        target: stat.target.and_then(|target| PathBytes::try_from(target).ok()),
    })
}

/// Sends bytes to the client; returns their number, or `None` if the client has left.
async fn send(
    mut bytes: FileBytes,
    (operation, path): &(FileOperation, FilePath),
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
) -> Result<Option<u64>, FileError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut sent = 0;
    loop {
        let read = match bytes.read(&mut buffer).await {
            Ok(0) => return Ok(Some(sent)),
            Ok(read) => read,
            Err(error) => {
                return Err(error.downcast::<FileError>().unwrap_or_else(|other| FileError {
                    operation: *operation,
                    path: path.clone(),
                    kind: FileErrorKind::Lost,
                    source: Some(Box::new(other)),
                }));
            }
        };
        if write_frame(writer, &Frame::Output(buffer[..read].to_vec())).await.is_err() {
            return Ok(None);
        }
        sent += read as u64;
    }
}

pub(crate) fn failed(error: &FileError) -> Reply {
    let remedy = error.kind.remedy().unwrap_or("look at the files with `stockade exec`");
    let failure = Failure { message: chain(error), remedy: remedy.to_owned() };
    Reply::FileFailed { kind: error.kind.as_str().to_owned(), failure }
}

/// The bytes that a client sends. If it leaves before their end, reading fails.
fn received(mut reader: OwnedReadHalf) -> FileBytes {
    let (sender, pieces) = mpsc::channel(4);
    tokio::spawn(async move {
        loop {
            let piece = match read_frame(&mut reader).await {
                Ok(Frame::Input(bytes)) => Ok(bytes),
                Ok(Frame::InputEnd) => Ok(Vec::new()),
                Ok(_) | Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            };
            let is_last = !piece.as_ref().is_ok_and(|bytes| !bytes.is_empty());
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    Box::new(Received { pieces, rest: Vec::new(), at: 0, ended: false })
}

struct Received {
    /// Pieces of content; an empty one is the end.
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    rest: Vec<u8>,
    at: usize,
    ended: bool,
}

impl AsyncRead for Received {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.at == self.rest.len() && !self.ended {
            let piece = ready!(self.pieces.poll_recv(context));
            let early = || Err(io::ErrorKind::UnexpectedEof.into());
            self.rest = piece.unwrap_or_else(early)?;
            self.at = 0;
            self.ended = self.rest.is_empty();
        }
        let taken = buffer.remaining().min(self.rest.len() - self.at);
        buffer.put_slice(&self.rest[self.at..self.at + taken]);
        self.at += taken;
        Poll::Ready(Ok(()))
    }
}
