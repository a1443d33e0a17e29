//! Serves a watch: reports changes until the client leaves, the directory is gone or the session
//! ends.

use stockade_api::{FileChangeView, FileResult, Frame, PathBytes, Reply, read_frame, write_frame};
use stockade_provider::{FileChange, FileChangeKind, FileError, FileOperation, Files};
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;

use crate::files::{checked, failed};
use crate::supervisor::Shared;

pub(crate) async fn serve(
    stream: UnixStream,
    files: &dyn Files,
    path: &PathBytes,
    recursive: bool,
    shared: &Shared,
) {
    let (mut reader, mut writer) = stream.into_split();
    let mut ending = shared.ending.subscribe();
    let ended = tokio::select! {
        ended = report(files, path, recursive, &mut writer) => ended,
        // A client sends nothing more: its end ends the watch.
        _ = read_frame(&mut reader) => return,
        _ = ending.wait_for(|ending| *ending) => return,
    };
    let last = ended.map_or_else(|error| failed(&error), |()| Reply::File(FileResult::default()));
    // Fails if the client has left.
    let _ = write_frame(&mut writer, &Frame::Reply(last)).await;
}

/// Reports that the watch holds, and then every change.
async fn report(
    files: &dyn Files,
    path: &PathBytes,
    recursive: bool,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), FileError> {
    let path = checked(FileOperation::Watch, path)?;
    let mut watch = files.watch(&path, recursive).await?;
    let mut reply = Reply::File(FileResult { more: true, ..FileResult::default() });
    loop {
        if write_frame(writer, &Frame::Reply(reply)).await.is_err() {
            // The client has left.
            return Ok(());
        }
        match watch.next().await? {
            Some(change) => reply = Reply::FileChange(view(&change)),
            None => return Ok(()),
        }
    }
}

fn view(change: &FileChange) -> FileChangeView {
    let kind = match change.kind {
        FileChangeKind::Created => "created",
        FileChangeKind::Modified => "modified",
        FileChangeKind::Removed => "removed",
        FileChangeKind::Lost => "lost",
    };
    let path = change.path.as_ref();
    let path = path.and_then(|path| PathBytes::try_from(path.as_bytes().to_vec()).ok());
    FileChangeView { kind: kind.to_owned(), path }
}
