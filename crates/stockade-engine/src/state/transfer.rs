//! Moves trees between a sandbox and the store: the sandbox is asynchronous, the store blocks.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use stockade_archive::ArchiveError;
use stockade_provider::{
    Error, ErrorKind, FileBytes, FileError, FileErrorKind, Files, ProviderName, Sandbox, Transfer,
    WritablePlace, chain,
};
use stockade_store::{
    Builder, Checkpoint, Contents, Delta, Limits, Store, StoreError, StoredPlace, Summary,
};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::{can_keep, refused};
use crate::RunError;

/// The size of a piece between the sandbox and the store.
const PIECE_BYTES: usize = 256 << 10;
/// How many pieces wait.
const PIECES: usize = 8;

/// Copies everything into the store, where it is not visible yet.
pub(super) async fn capture(
    files: &dyn Files,
    store: &Store,
    limits: Limits,
) -> Result<(Builder, Summary), RunError> {
    let bytes = files.capture().await.map_err(|error| match error.kind {
        FileErrorKind::Busy => Error::new(ErrorKind::Busy, chain(&error))
            .with_remedy("a program could not be stopped; try again, or end it"),
        _ => Error::from(error),
    })?;
    let (sender, pieces) = mpsc::channel(PIECES);
    let store = store.clone();
    let building = spawn_blocking(move || {
        let mut builder = store.build()?;
        let mut source = Pieces { pieces, piece: Vec::new(), at: 0 };
        let summary = builder.add(&mut source, limits)?;
        // The end of the stream shows whether the sandbox could read everything.
        io::copy(&mut source, &mut io::sink())
            .map_err(|source| StoreError::Tree { source: stockade_store::stream_error(source) })?;
        Ok::<_, StoreError>((builder, summary))
    });
    forward(bytes, sender).await;
    joined(building.await).map_err(of_sandbox)
}

/// Passes the bytes of a sandbox on to a thread.
async fn forward(mut bytes: FileBytes, sender: mpsc::Sender<io::Result<Vec<u8>>>) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let mut filled = 0;
        let read = loop {
            match bytes.read(&mut piece[filled..]).await {
                Ok(0) => break Ok(true),
                Ok(read) => filled += read,
                Err(error) => break Err(error),
            }
            if filled == piece.len() {
                break Ok(false);
            }
        };
        piece.truncate(filled);
        let (piece, is_last) = match read {
            Ok(is_last) => (Ok(piece), is_last),
            Err(error) => (Err(error), true),
        };
        // Fails if the store refused something.
        if sender.send(piece).await.is_err() || is_last {
            break;
        }
    }
}

/// The error of the sandbox, if the stream failed because of it.
fn of_sandbox(error: StoreError) -> RunError {
    match error {
        StoreError::Tree { source: ArchiveError::Stream { source } } => {
            match source.downcast::<FileError>() {
                Ok(error) => Error::from(error).into(),
                Err(source) => StoreError::Tree { source: ArchiveError::Stream { source } }.into(),
            }
        }
        error => error.into(),
    }
}

/// Copies the files of a checkpoint into a sandbox.
pub(super) async fn fill(
    sandbox: &dyn Sandbox,
    wall: &ProviderName,
    store: &Store,
    checkpoint: &Checkpoint,
) -> Result<(), RunError> {
    let files = sandbox.files()?;
    can_keep(files.as_ref(), wall, "use the checkpoint")?;
    let numbers = numbers(&files.places(), checkpoint)?;
    let (store, checkpoint) = (store.clone(), checkpoint.clone());
    let send = move |output: &mut Sent| store.contents(&checkpoint)?.send(&numbers, output);
    let (sent, filled) = fill_with(files.as_ref(), send).await;
    // The error of the store is the cause of the other.
    match (sent, filled) {
        (_, Ok(_)) => Ok(()),
        (Err(error @ StoreError::Damaged { .. }), Err(_)) => Err(error.into()),
        (_, Err(error)) => Err(Error::from(error).into()),
    }
}

/// Compares the files of a sandbox with a checkpoint. `None` if the sandbox cannot say what it has,
/// or cannot get there by changes.
pub(super) async fn difference(
    files: &dyn Files,
    store: &Store,
    checkpoint: &Checkpoint,
) -> Option<(Contents, Delta)> {
    let numbers = numbers(&files.places(), checkpoint).ok()?;
    let bytes = files.digest().await.ok()?;
    let (sender, pieces) = mpsc::channel(PIECES);
    let (store, checkpoint) = (store.clone(), checkpoint.clone());
    let comparing = spawn_blocking(move || {
        let contents = store.contents(&checkpoint)?;
        let mut source = Pieces { pieces, piece: Vec::new(), at: 0 };
        let Some(delta) = contents.delta(&numbers, &mut source)? else { return Ok(None) };
        // The end of the stream shows whether the sandbox could read everything.
        io::copy(&mut source, &mut io::sink())
            .map_err(|source| StoreError::Tree { source: stockade_store::stream_error(source) })?;
        contents.check_delta(&delta)?;
        Ok::<_, StoreError>(Some((contents, delta)))
    });
    forward(bytes, sender).await;
    // Every error occurs again, or does not matter, when all files are written.
    joined(comparing.await).ok().flatten()
}

/// Changes the files of a sandbox. Returns whether all of it was done.
pub(super) async fn change(files: &dyn Files, contents: Contents, delta: Delta) -> bool {
    let send = move |output: &mut Sent| contents.send_delta(&delta, output);
    let (sent, filled) = fill_with(files, send).await;
    sent.is_ok() && filled.is_ok()
}

/// Writes what `send` sends into a sandbox.
async fn fill_with(
    files: &dyn Files,
    send: impl FnOnce(&mut Sent) -> Result<(), StoreError> + Send + 'static,
) -> (Result<(), StoreError>, Result<Transfer, FileError>) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let sending = spawn_blocking(move || {
        let mut output = Sent { pieces: sender, piece: Vec::new() };
        let sent = send(&mut output);
        if sent.is_err() {
            let _ = output.pieces.blocking_send(Err(io::ErrorKind::BrokenPipe.into()));
        }
        sent
    });
    let tree: FileBytes = Box::new(Received { pieces, piece: Vec::new(), at: 0 });
    let filled = files.fill(tree).await;
    (joined(sending.await), filled)
}

/// The numbers of the places of a sandbox, by those of a checkpoint.
fn numbers(places: &[WritablePlace], checkpoint: &Checkpoint) -> Result<Vec<u32>, RunError> {
    let doing = "use the checkpoint";
    let number = |kept: &StoredPlace| {
        let found = (0..).zip(places).find(|(_, place)| place.path.to_string() == kept.path);
        let found = found.filter(|(_, place)| place.base.is_some() == kept.base.is_some());
        found.map(|(number, _)| number).ok_or_else(|| {
            let reason = format!("the sandbox has no such writable place at {}", kept.path);
            refused(doing, &reason, "use the wall and the image that it was made with")
        })
    };
    checkpoint.places.iter().map(number).collect()
}

/// Runs work that blocks.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(spawn_blocking(work).await)
}

fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Pieces from a sandbox, read by a thread.
struct Pieces {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let Some(piece) = self.pieces.blocking_recv() else { return Ok(0) };
            (self.piece, self.at) = (piece?, 0);
        }
        let taken = buffer.len().min(self.piece.len() - self.at);
        buffer[..taken].copy_from_slice(&self.piece[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

/// Pieces for a sandbox, written by a thread. Each byte is copied once.
struct Sent {
    pieces: mpsc::Sender<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
}

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.capacity() == 0 {
            self.piece.reserve_exact(PIECE_BYTES);
        }
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let sent = self.pieces.blocking_send(Ok(std::mem::take(&mut self.piece)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The same pieces, as the sandbox receives them.
struct Received {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
}

impl AsyncRead for Received {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.at == self.piece.len() {
            let Some(piece) = ready!(self.pieces.poll_recv(context)) else {
                return Poll::Ready(Ok(()));
            };
            (self.piece, self.at) = (piece?, 0);
        }
        let taken = buffer.remaining().min(self.piece.len() - self.at);
        buffer.put_slice(&self.piece[self.at..self.at + taken]);
        self.at += taken;
        Poll::Ready(Ok(()))
    }
}
