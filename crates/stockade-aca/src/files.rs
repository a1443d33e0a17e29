//! The files inside, over the service's files interface. It acts as root inside, does not
//! distinguish links and returns whole files.

use std::io;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use hyper::body::Bytes;
use stockade_policy::WORKSPACE;
use stockade_provider::{
    FileBytes, FileEntry, FileError, FileErrorKind, FileKind, FileOperation, FilePart, FilePath,
    FileStat, FileWatch, FileWriteMode, FileWriting, Files, FinalLink, Transfer,
};
use tokio::io::AsyncReadExt;

use crate::AcaError;
use crate::client::{MOST_FILE, SandboxId, Service};
use crate::trees;
use crate::wire::FileView;

/// The mode of an executable file.
const EXECUTABLE: &str = "0755";

/// The files of one sandbox.
pub(crate) struct RemoteFiles {
    pub(crate) service: Arc<Service>,
    pub(crate) id: SandboxId,
}

/// An operation on a path, for its errors.
#[derive(Clone, Copy)]
pub(crate) struct Doing<'p> {
    pub(crate) operation: FileOperation,
    pub(crate) path: &'p FilePath,
}

impl Doing<'_> {
    pub(crate) fn failed(self, error: AcaError) -> FileError {
        let kind = match &error {
            AcaError::Missing { .. } => FileErrorKind::NotFound,
            AcaError::Refused { .. } => FileErrorKind::Permission,
            AcaError::Busy { .. } => FileErrorKind::Busy,
            AcaError::Conflict { .. } => FileErrorKind::Exists,
            _ => FileErrorKind::Other,
        };
        self.because(kind, error)
    }

    fn because(
        self,
        kind: FileErrorKind,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> FileError {
        let (operation, path) = (self.operation, self.path.clone());
        FileError { operation, path, kind, source: Some(source.into()) }
    }

    pub(crate) fn plain(self, kind: FileErrorKind) -> FileError {
        FileError { operation: self.operation, path: self.path.clone(), kind, source: None }
    }

    /// The service has no such operation.
    fn unsupported(self) -> FileError {
        let reason = format!("Azure's files interface cannot {}", self.operation);
        self.because(FileErrorKind::Other, reason)
    }

    /// The path as the service takes it: absolute text.
    pub(crate) fn text(self) -> Result<String, FileError> {
        let text = std::str::from_utf8(self.path.as_bytes());
        let text = text.map_err(|_| {
            self.because(FileErrorKind::Other, "Azure's files interface takes only UTF-8 paths")
        })?;
        Ok(match self.path.is_absolute() {
            true => text.to_owned(),
            false => format!("{WORKSPACE}/{text}"),
        })
    }
}

impl RemoteFiles {
    pub(crate) async fn stat_of(&self, doing: Doing<'_>) -> Result<FileStat, FileError> {
        let view = self.service.stat(&self.id, &doing.text()?).await;
        Ok(stat(&view.map_err(|error| doing.failed(error))?))
    }

    pub(crate) async fn bytes_of(&self, doing: Doing<'_>) -> Result<Vec<u8>, FileError> {
        let read = self.service.fetch(&self.id, &doing.text()?, MOST_FILE).await;
        read.map_err(|error| doing.failed(error))
    }

    pub(crate) async fn write_bytes(
        &self,
        doing: Doing<'_>,
        content: Bytes,
        executable: bool,
    ) -> Result<(), FileError> {
        let mode = executable.then_some(EXECUTABLE);
        let put = self.service.put(&self.id, &doing.text()?, mode, content).await;
        put.map_err(|error| doing.failed(error))
    }

    /// The entries of a directory by their path below it, depth first, each directory before its
    /// entries.
    pub(crate) async fn walk(
        &self,
        doing: Doing<'_>,
        depth: u32,
        most: usize,
    ) -> Result<Vec<FileEntry>, FileError> {
        let root = doing.text()?;
        let mut found = Vec::new();
        let mut rest = vec![(Vec::new(), 1)];
        while let Some((below, level)) = rest.pop() {
            let directory = match below.is_empty() {
                true => root.clone(),
                false => format!("{root}/{}", String::from_utf8_lossy(&below)),
            };
            let listing = self.service.entries(&self.id, &directory).await;
            for view in listing.map_err(|error| doing.failed(error))?.entries {
                // A name from inside must not lead elsewhere.
                let Ok(name) = FilePath::below(view.name.as_bytes()) else {
                    return Err(doing.because(FileErrorKind::Other, "a name is not a plain one"));
                };
                let mut path = below.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
                if path.contains(&0) || found.len() >= most {
                    return Err(doing.plain(FileErrorKind::TooLarge));
                }
                let stat = stat(&view);
                if stat.kind == FileKind::Directory && level < depth {
                    rest.push((path.clone(), level + 1));
                }
                let path = FilePath::below(path);
                let path = path.map_err(|_| doing.plain(FileErrorKind::NameTooLong))?;
                found.push(FileEntry { path, stat });
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }
}

/// A file as the service describes it. What it leaves out is zero.
fn stat(view: &FileView) -> FileStat {
    FileStat {
        kind: if view.is_directory { FileKind::Directory } else { FileKind::File },
        bytes: view.size.unwrap_or(0),
        mode: view.mode.as_deref().and_then(mode).unwrap_or(0),
        modified: view.modified_at.as_deref().and_then(seconds).unwrap_or(0),
        target: None,
    }
}

/// Permission bits, in octal digits.
fn mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim_start_matches("0o"), 8).ok().map(|mode| mode & 0o7777)
}

/// `2026-11-18T20:00:00Z`, with or without a fraction, in seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00"))?;
    let (date, time) = text.split_once('T')?;
    let time = time.split('.').next()?;
    let number = |part: Option<&str>| part?.parse::<i64>().ok();
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next())?, number(date.next())?, number(date.next())?);
    let mut time = time.split(':');
    let (hour, minute, second) = (number(time.next())?, number(time.next())?, number(time.next())?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the civil calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

impl Files for RemoteFiles {
    fn read<'a>(
        &'a self,
        path: &'a FilePath,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let doing = Doing { operation: FileOperation::Read, path };
            let mut bytes = self.bytes_of(doing).await?;
            let start = usize::try_from(part.offset).unwrap_or(usize::MAX).min(bytes.len());
            bytes.drain(..start);
            let most =
                part.length.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
            bytes.truncate(most);
            Ok(Box::new(io::Cursor::new(bytes)) as FileBytes)
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a FilePath,
        how: FileWriting,
        content: FileBytes,
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move {
            let doing = Doing { operation: FileOperation::Write, path };
            match how.mode {
                FileWriteMode::Replace => {}
                FileWriteMode::Append => {
                    let reason = "Azure's files interface cannot add to a file";
                    return Err(doing.because(FileErrorKind::Other, reason));
                }
                FileWriteMode::Create => match self.stat_of(doing).await {
                    Ok(_) => return Err(doing.plain(FileErrorKind::Exists)),
                    Err(error) if error.kind == FileErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                },
            }
            let mut bytes = Vec::new();
            let most = u64::try_from(MOST_FILE).unwrap_or(u64::MAX);
            let read = content.take(most + 1).read_to_end(&mut bytes).await;
            read.map_err(|error| doing.because(FileErrorKind::Incomplete, error))?;
            if bytes.len() > MOST_FILE {
                return Err(doing.plain(FileErrorKind::TooLarge));
            }
            let count = bytes.len() as u64;
            self.write_bytes(doing, Bytes::from(bytes), how.executable).await?;
            Ok(count)
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a FilePath,
        depth: u32,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        Box::pin(self.walk(Doing { operation: FileOperation::List, path }, depth, most))
    }

    fn stat<'a>(
        &'a self,
        path: &'a FilePath,
        _: FinalLink,
    ) -> BoxFuture<'a, Result<FileStat, FileError>> {
        Box::pin(self.stat_of(Doing { operation: FileOperation::Stat, path }))
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a FilePath,
        parents: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let doing = Doing { operation: FileOperation::MakeDirectory, path };
            match self.stat_of(doing).await {
                Ok(found) if parents && found.kind == FileKind::Directory => return Ok(()),
                Ok(_) => return Err(doing.plain(FileErrorKind::Exists)),
                Err(error) if error.kind == FileErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let made = self.service.make_directory(&self.id, &doing.text()?).await;
            made.map_err(|error| doing.failed(error))
        })
    }

    fn rename<'a>(
        &'a self,
        from: &'a FilePath,
        _: &'a FilePath,
        _: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        let doing = Doing { operation: FileOperation::Rename, path: from };
        Box::pin(async move { Err(doing.unsupported()) })
    }

    fn remove<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<bool, FileError>> {
        Box::pin(async move {
            let doing = Doing { operation: FileOperation::Remove, path };
            match self.service.remove(&self.id, &doing.text()?, recursive).await {
                Ok(()) => Ok(true),
                Err(AcaError::Missing { .. }) => Ok(false),
                Err(error @ AcaError::Conflict { .. }) if !recursive => {
                    Err(doing.because(FileErrorKind::NotEmpty, error))
                }
                Err(error) => Err(doing.failed(error)),
            }
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a FilePath,
        _: bool,
    ) -> BoxFuture<'a, Result<Box<dyn FileWatch>, FileError>> {
        let doing = Doing { operation: FileOperation::Watch, path };
        Box::pin(async move { Err(doing.unsupported()) })
    }

    fn why_no_places(&self) -> &'static str {
        "Azure only snapshots a whole sandbox, as an object that stays in Azure: restore, fork, diff, \
         apply and export read the files of a checkpoint, and a snapshot gives none"
    }

    fn upload<'a>(
        &'a self,
        path: &'a FilePath,
        archive: FileBytes,
    ) -> BoxFuture<'a, Result<Transfer, FileError>> {
        Box::pin(trees::upload(self, path, archive))
    }

    fn download<'a>(
        &'a self,
        path: &'a FilePath,
        _: FinalLink,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(trees::download(self, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_modes_of_the_service_are_read() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2026-11-18T20:00:00.123Z"), Some(1_795_032_000));
        assert_eq!(seconds("2000-02-29T12:30:15+00:00"), Some(951_827_415));
        for wrong in ["", "2026", "2026-11-18", "2026-13-01T00:00:00Z", "2026-11-18T20:00:00"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(
            (mode("0644"), mode("755"), mode("0o600"), mode("rw-")),
            (Some(0o644), Some(0o755), Some(0o600), None)
        );
    }
}
