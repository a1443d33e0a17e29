//! The files inside a sandbox.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stockade_provider::{
    FileBytes, FileChangeKind, FileError, FileKind, FilePart, FilePath, FileStat, FileWriteMode,
    FileWriting, FinalLink, chain,
};
use stockade_supervisor::RemoteFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::failure::Problem;
use crate::operation::{Answer, Finished, Operation, nothing};
use crate::runtime::Inner;
use crate::session::Session;

/// The size of one piece of a stream.
const PIECE_BYTES: usize = 256 * 1024;

/// The most entries of one list.
const MOST_ENTRIES: usize = 100_000;

/// A file: its kind, size, permission bits, time of the last change, and the target of a link.
type StatView = (&'static str, u64, u32, i64, Option<Vec<u8>>);

/// Whose files they are.
enum Owner {
    /// A session of this process.
    Here(Py<Session>),
    /// A session that another process holds.
    Elsewhere(Arc<Inner>, RemoteFiles),
}

/// The files inside a sandbox. Paths are bytes.
#[pyclass(frozen)]
pub(crate) struct Files {
    owner: Owner,
}

impl Files {
    pub(crate) fn new(session: Py<Session>) -> Files {
        Files { owner: Owner::Here(session) }
    }

    pub(crate) fn elsewhere(runtime: Arc<Inner>, files: RemoteFiles) -> Files {
        Files { owner: Owner::Elsewhere(runtime, files) }
    }

    fn start<F>(
        &self,
        work: impl FnOnce(Arc<dyn stockade_provider::Files>) -> F + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = Finished> + Send,
    {
        let runtime = self.runtime();
        let session = match &self.owner {
            Owner::Here(session) => session.get().session()?,
            Owner::Elsewhere(_, files) => {
                let files = Arc::new(files.clone());
                return Ok(Operation::abortable(&runtime, async move { work(files).await })?);
            }
        };
        Ok(Operation::abortable(&runtime, async move {
            let files = session.files()?;
            // The session can end while an operation runs.
            drop(session);
            work(files).await
        })?)
    }

    fn runtime(&self) -> Arc<Inner> {
        match &self.owner {
            Owner::Here(session) => session.get().runtime(),
            Owner::Elsewhere(runtime, _) => Arc::clone(runtime),
        }
    }
}

#[pymethods]
impl Files {
    /// Reads a file of at most `most` bytes.
    fn read(&self, path: &[u8], most: u64) -> PyResult<Operation> {
        let path = parsed(path)?;
        self.start(move |files| async move {
            let part = FilePart { offset: 0, length: Some(most.saturating_add(1)) };
            let mut content = Vec::new();
            let stream = files.read(&path, part).await?;
            read_all(stream, &path, most, &mut content).await?;
            let answer: Answer =
                Box::new(move |py| Ok(PyBytes::new(py, &content).into_any().unbind()));
            Ok(answer)
        })
    }

    /// Writes a file. The mode is `replace`, `create` or `append`; the result counts the bytes.
    fn write(
        &self,
        path: &[u8],
        content: &[u8],
        mode: &str,
        executable: bool,
    ) -> PyResult<Operation> {
        let (path, content) = (parsed(path)?, content.to_vec());
        let mode = match mode {
            "replace" => FileWriteMode::Replace,
            "create" => FileWriteMode::Create,
            "append" => FileWriteMode::Append,
            other => {
                let message = format!("{other:?} is not a way to write a file");
                return Err(Problem::invalid(message, "pass replace, create or append").into());
            }
        };
        self.start(move |files| async move {
            let content = Box::new(std::io::Cursor::new(content));
            let count = files.write(&path, FileWriting { mode, executable }, content).await?;
            let answer: Answer =
                Box::new(move |py| Ok(count.into_pyobject(py)?.into_any().unbind()));
            Ok(answer)
        })
    }

    /// Lists a directory: pairs of a path below it and what it is.
    fn list(&self, path: &[u8], depth: u32) -> PyResult<Operation> {
        let path = parsed(path)?;
        self.start(move |files| async move {
            let entries = files.list(&path, depth, MOST_ENTRIES).await?;
            let answer: Answer = Box::new(move |py| {
                let views: Vec<_> = entries
                    .into_iter()
                    .map(|it| (PyBytes::new(py, it.path.as_bytes()).unbind(), view(it.stat)))
                    .collect();
                Ok(views.into_pyobject(py)?.into_any().unbind())
            });
            Ok(answer)
        })
    }

    /// Describes a file; a link itself unless `follow`.
    fn stat(&self, path: &[u8], follow: bool) -> PyResult<Operation> {
        let path = parsed(path)?;
        self.start(move |files| async move {
            let stat = view(files.stat(&path, link(follow)).await?);
            let answer: Answer =
                Box::new(move |py| Ok(stat.into_pyobject(py)?.into_any().unbind()));
            Ok(answer)
        })
    }

    /// Makes a directory, with those above it.
    fn make_directory(&self, path: &[u8]) -> PyResult<Operation> {
        let path = parsed(path)?;
        self.start(move |files| async move {
            files.make_directory(&path, true).await?;
            Ok(nothing())
        })
    }

    /// Renames a file or a directory.
    fn rename(&self, from_: &[u8], to: &[u8], replace: bool) -> PyResult<Operation> {
        let (from, to) = (parsed(from_)?, parsed(to)?);
        self.start(move |files| async move {
            files.rename(&from, &to, replace).await?;
            Ok(nothing())
        })
    }

    /// Removes a file or a directory. The result is false if nothing was there.
    fn remove(&self, path: &[u8], recursive: bool) -> PyResult<Operation> {
        let path = parsed(path)?;
        self.start(move |files| async move {
            let was_there = files.remove(&path, recursive).await?;
            let answer: Answer =
                Box::new(move |py| Ok(was_there.into_pyobject(py)?.to_owned().into_any().unbind()));
            Ok(answer)
        })
    }

    /// Watches a directory. The result is a FileWatch.
    fn watch(&self, path: &[u8], recursive: bool) -> PyResult<Operation> {
        let (path, runtime) = (parsed(path)?, self.runtime());
        self.start(move |files| async move {
            let watch = files.watch(&path, recursive).await?;
            let watch = FileWatch { runtime, watch: Arc::new(Mutex::new(watch)) };
            let answer: Answer = Box::new(move |py| Ok(Py::new(py, watch)?.into_any()));
            Ok(answer)
        })
    }

    /// Unpacks a tar archive, a file of the host, into a directory.
    fn upload(&self, path: &[u8], archive: PathBuf) -> PyResult<Operation> {
        let path = parsed(path)?;
        self.start(move |files| async move {
            let (sender, reader) = duplex(PIECE_BYTES);
            let (done, sent) =
                tokio::join!(files.upload(&path, Box::new(reader)), send(archive, sender));
            // A failure to read the archive ends the upload early, so it is the cause.
            sent?;
            let done = done?;
            let view = (done.bytes, done.left_out);
            let answer: Answer =
                Box::new(move |py| Ok(view.into_pyobject(py)?.into_any().unbind()));
            Ok(answer)
        })
    }

    /// A file or a tree as a tar archive, which comes from inside. The result is a FileStream.
    fn download(&self, path: &[u8]) -> PyResult<Operation> {
        let (path, runtime) = (parsed(path)?, self.runtime());
        self.start(move |files| async move {
            let stream = files.download(&path, FinalLink::Follow).await?;
            let stream = FileStream { runtime, path, stream: Arc::new(Mutex::new(stream)) };
            let answer: Answer = Box::new(move |py| Ok(Py::new(py, stream)?.into_any()));
            Ok(answer)
        })
    }
}

/// Reports the changes in a directory.
#[pyclass(frozen)]
pub(crate) struct FileWatch {
    runtime: Arc<Inner>,
    watch: Arc<Mutex<Box<dyn stockade_provider::FileWatch>>>,
}

#[pymethods]
impl FileWatch {
    /// The next change: its kind and its path below the directory. None at the end.
    fn next(&self) -> PyResult<Operation> {
        let watch = Arc::clone(&self.watch);
        Ok(Operation::abortable(&self.runtime, async move {
            let change = watch.lock().await.next().await?;
            let answer: Answer = Box::new(move |py| {
                let Some(change) = change else { return Ok(py.None()) };
                let kind = match change.kind {
                    FileChangeKind::Created => "created",
                    FileChangeKind::Modified => "modified",
                    FileChangeKind::Removed => "removed",
                    FileChangeKind::Lost => "lost",
                };
                let path = change.path.map(|path| PyBytes::new(py, path.as_bytes()).unbind());
                Ok((kind, path).into_pyobject(py)?.into_any().unbind())
            });
            Ok(answer)
        })?)
    }
}

/// Bytes from inside.
#[pyclass(frozen)]
pub(crate) struct FileStream {
    runtime: Arc<Inner>,
    path: FilePath,
    stream: Arc<Mutex<FileBytes>>,
}

#[pymethods]
impl FileStream {
    /// The next bytes; empty at the end.
    fn next(&self) -> PyResult<Operation> {
        let (stream, path) = (Arc::clone(&self.stream), self.path.clone());
        Ok(Operation::abortable(&self.runtime, async move {
            let mut buffer = vec![0; PIECE_BYTES];
            let count = stream.lock().await.read(&mut buffer).await;
            buffer.truncate(count.map_err(|error| stream_failed(error, &path))?);
            let answer: Answer =
                Box::new(move |py| Ok(PyBytes::new(py, &buffer).into_any().unbind()));
            Ok(answer)
        })?)
    }
}

/// Sends the content of a file of the host. A receiver that stops early reports why itself.
async fn send(file: PathBuf, mut sender: DuplexStream) -> Result<(), Problem> {
    let unreadable = |file: &Path, error: std::io::Error| {
        let message = format!("cannot read the archive {}: {error}", file.display());
        Problem::invalid(message, "check its path and permissions")
    };
    let mut opened = File::open(&file).map_err(|error| unreadable(&file, error))?;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = spawn_blocking(move || {
            let count = opened.read(&mut buffer);
            (opened, buffer, count)
        });
        let Ok((again, bytes, count)) = read.await else { return Err(Problem::cancelled()) };
        (opened, buffer) = (again, bytes);
        let count = count.map_err(|error| unreadable(&file, error))?;
        if count == 0 || sender.write_all(&buffer[..count]).await.is_err() {
            return Ok(());
        }
    }
}

async fn read_all(
    stream: FileBytes,
    path: &FilePath,
    most: u64,
    content: &mut Vec<u8>,
) -> Result<(), Problem> {
    let read = stream.take(most.saturating_add(1)).read_to_end(content).await;
    read.map_err(|error| stream_failed(error, path))?;
    if u64::try_from(content.len()).is_ok_and(|count| count > most) {
        let message = format!("cannot read {path}: it has more than {most} bytes");
        return Err(Problem::new("too_large", message, "pass a larger limit, or download it"));
    }
    Ok(())
}

/// The failure of a stream: its error contains that of the operation.
fn stream_failed(error: std::io::Error, path: &FilePath) -> Problem {
    let message = format!("cannot read {path}: {error}");
    match error.downcast::<FileError>() {
        Ok(error) => Problem::from(error),
        Err(_) => Problem::new("other", message, "try again"),
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Problem {
        Problem::new(error.kind.as_str(), chain(&error), error.kind.remedy().unwrap_or_default())
    }
}

fn parsed(path: &[u8]) -> Result<FilePath, Problem> {
    FilePath::new(path).map_err(|error| {
        let kind = match error {
            stockade_provider::FilePathError::Traversal => "traversal",
            _ => "invalid",
        };
        Problem::new(kind, error.to_string(), "pass a path inside the sandbox")
    })
}

fn link(follow: bool) -> FinalLink {
    if follow { FinalLink::Follow } else { FinalLink::Keep }
}

fn view(stat: FileStat) -> StatView {
    let kind = match stat.kind {
        FileKind::File => "file",
        FileKind::Directory => "dir",
        FileKind::Link => "symlink",
        FileKind::Special => "special",
    };
    (kind, stat.bytes, stat.mode, stat.modified, stat.target)
}
