//! The files of a session that another process holds, through its supervisor.

mod received;
mod subject;

use std::io;
use std::path::{Path, PathBuf};

use futures_core::future::BoxFuture;
use stockade_api::{
    FileMode, FileParams, FileResult, Frame, Reply, Request, read_frame, write_frame,
};
use stockade_provider::{
    FileBytes, FileChange, FileChangeKind, FileEntry, FileError, FileErrorKind, FileOperation,
    FilePart, FilePath, FileStat, FileWatch, FileWriteMode, FileWriting, Files, FinalLink,
    Transfer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::UnixStream;

use self::received::Received;
use self::subject::Subject;
use crate::client::connect;

const CHUNK_BYTES: usize = 64 << 10;

/// The files of a session. Each operation is one connection to the supervisor.
#[derive(Clone, Debug)]
pub struct RemoteFiles {
    socket: PathBuf,
}

impl RemoteFiles {
    /// The files of the session whose supervisor listens on a socket.
    pub fn new(socket: &Path) -> RemoteFiles {
        RemoteFiles { socket: socket.to_owned() }
    }

    async fn open(&self, subject: &Subject, params: FileParams) -> Result<UnixStream, FileError> {
        let mut stream = connect(&self.socket).map_err(|error| subject.lost(error))?;
        let request = Frame::Request(Request::File(params));
        write_frame(&mut stream, &request).await.map_err(|error| subject.lost(error))?;
        Ok(stream)
    }

    async fn ask(&self, subject: &Subject, params: FileParams) -> Result<FileResult, FileError> {
        let mut stream = self.open(subject, params).await?;
        subject.result(&mut stream).await
    }

    /// Sends content after the request. A supervisor that refuses early answers early.
    async fn send(
        &self,
        subject: &Subject,
        params: FileParams,
        mut content: FileBytes,
    ) -> Result<FileResult, FileError> {
        let (mut reader, mut writer) = self.open(subject, params).await?.into_split();
        let send = async {
            let mut buffer = vec![0; CHUNK_BYTES];
            loop {
                let read = content.read(&mut buffer).await.map_err(|error| {
                    subject.failed(FileErrorKind::Incomplete, Some(Box::new(error)))
                })?;
                let frame = match read {
                    0 => Frame::InputEnd,
                    _ => Frame::Input(buffer[..read].to_vec()),
                };
                // The supervisor's answer has the reason why it stopped reading.
                if write_frame(&mut writer, &frame).await.is_err() || read == 0 {
                    return Ok(());
                }
            }
        };
        let mut answer = std::pin::pin!(subject.result(&mut reader));
        tokio::select! {
            biased;
            early = &mut answer => early,
            sent = send => {
                let () = sent?;
                answer.await
            }
        }
    }

    /// Receives bytes. They end with the supervisor's result, or with its error.
    async fn receive(&self, subject: Subject, params: FileParams) -> Result<FileBytes, FileError> {
        let mut stream = self.open(&subject, params).await?;
        // The first frame decides whether the operation fails as a whole.
        let first = subject.piece(&mut stream).await?;
        let (reader, mut writer) = duplex(CHUNK_BYTES);
        let (report, reported) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let mut piece = Ok(first);
            while let Ok(Some(bytes)) = &piece {
                // The reader has left.
                if writer.write_all(bytes).await.is_err() {
                    return;
                }
                piece = subject.piece(&mut stream).await;
            }
            // Sent before the writer is dropped, so the reader finds it at the end.
            let _ = report.send(piece.err());
        });
        Ok(Box::new(Received::new(reader, reported)))
    }
}

impl Files for RemoteFiles {
    fn read<'a>(
        &'a self,
        path: &'a FilePath,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Read, path);
            let FilePart { offset, length } = part;
            let params = FileParams::Read { path: subject.bytes()?, offset, length };
            self.receive(subject, params).await
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a FilePath,
        how: FileWriting,
        content: FileBytes,
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Write, path);
            let mode = match how.mode {
                FileWriteMode::Replace => FileMode::Replace,
                FileWriteMode::Create => FileMode::Create,
                FileWriteMode::Append => FileMode::Append,
            };
            let executable = how.executable;
            let params = FileParams::Write { path: subject.bytes()?, mode, executable };
            Ok(self.send(&subject, params, content).await?.bytes)
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a FilePath,
        depth: u32,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::List, path);
            let params = FileParams::List { path: subject.bytes()?, depth };
            let views = self.ask(&subject, params).await?.entries;
            if views.len() > most {
                return Err(subject.failed(FileErrorKind::TooLarge, None));
            }
            views.into_iter().map(|view| subject.entry(view)).collect()
        })
    }

    fn stat<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileStat, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Stat, path);
            let follow = link == FinalLink::Follow;
            let params = FileParams::Stat { path: subject.bytes()?, follow };
            let view = self.ask(&subject, params).await?.entries.pop();
            Ok(subject.entry(view.ok_or_else(|| subject.unexpected())?)?.stat)
        })
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a FilePath,
        parents: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::MakeDirectory, path);
            let params = FileParams::MakeDirectory { path: subject.bytes()?, parents };
            self.ask(&subject, params).await.map(drop)
        })
    }

    fn rename<'a>(
        &'a self,
        from: &'a FilePath,
        to: &'a FilePath,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Rename, from);
            let to = Subject::new(FileOperation::Rename, to).bytes()?;
            let params = FileParams::Move { from: subject.bytes()?, to, replace };
            self.ask(&subject, params).await.map(drop)
        })
    }

    fn remove<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<bool, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Remove, path);
            let params = FileParams::Remove { path: subject.bytes()?, recursive };
            Ok(self.ask(&subject, params).await?.changed)
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<Box<dyn FileWatch>, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Watch, path);
            let params = FileParams::Watch { path: subject.bytes()?, recursive };
            let mut stream = self.open(&subject, params).await?;
            match read_frame(&mut stream).await.map_err(|error| subject.lost(error))? {
                Frame::Reply(Reply::File(FileResult { more: true, .. })) => {}
                Frame::Reply(Reply::FileFailed { kind, failure }) => {
                    return Err(subject.reported(&kind, failure));
                }
                Frame::Reply(Reply::Failed(failure)) => return Err(subject.lost(failure.message)),
                _ => return Err(subject.unexpected()),
            }
            let watch: Box<dyn FileWatch> = Box::new(RemoteWatch { subject, stream });
            Ok(watch)
        })
    }

    fn upload<'a>(
        &'a self,
        path: &'a FilePath,
        archive: FileBytes,
    ) -> BoxFuture<'a, Result<Transfer, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Upload, path);
            let params = FileParams::Upload { path: subject.bytes()? };
            let FileResult { bytes, left_out, .. } = self.send(&subject, params, archive).await?;
            Ok(Transfer { bytes, left_out })
        })
    }

    fn download<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let subject = Subject::new(FileOperation::Download, path);
            let follow = link == FinalLink::Follow;
            let params = FileParams::Download { path: subject.bytes()?, follow };
            self.receive(subject, params).await
        })
    }
}

/// Receives the changes below a directory until the connection ends.
struct RemoteWatch {
    subject: Subject,
    stream: UnixStream,
}

impl FileWatch for RemoteWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<FileChange>, FileError>> {
        Box::pin(async move {
            let subject = &self.subject;
            let change = match read_frame(&mut self.stream).await {
                Ok(Frame::Reply(Reply::FileChange(change))) => change,
                Ok(Frame::Reply(Reply::File(_))) => return Ok(None),
                Ok(Frame::Reply(Reply::FileFailed { kind, failure })) => {
                    return Err(subject.reported(&kind, failure));
                }
                Ok(_) => return Err(subject.unexpected()),
                Err(error) => return Err(subject.lost(io::Error::other(error))),
            };
            let kind = match change.kind.as_str() {
                "created" => FileChangeKind::Created,
                "modified" => FileChangeKind::Modified,
                "removed" => FileChangeKind::Removed,
                "lost" => FileChangeKind::Lost,
                _ => return Err(subject.unexpected()),
            };
            let path = change.path.map(|path| FilePath::new(path.as_bytes()));
            let path = path.transpose().map_err(|error| subject.lost(error))?;
            Ok(Some(FileChange { kind, path }))
        })
    }
}
