//! Sends the bytes of an operation to the guest.

use futures_util::io::{AsyncWrite, AsyncWriteExt};
use stockade_provider::{FileBytes, FileError, FileErrorKind};
use stockade_wire::MAX_CHUNK_BYTES;
use tokio::io::AsyncReadExt;

use super::answer::Subject;

/// The length of the length of a chunk.
const LENGTH: usize = size_of::<u32>();

/// Sends all bytes in chunks, and their end. If the source fails, the end is missing and the guest
/// discards what it wrote.
pub(super) async fn send(
    mut content: FileBytes,
    mut stream: impl AsyncWrite + Unpin,
    subject: &Subject,
) -> Result<(), FileError> {
    let mut chunk = vec![0; LENGTH + MAX_CHUNK_BYTES];
    loop {
        let read = content.read(&mut chunk[LENGTH..]).await;
        let read = read.map_err(|error| subject.failed(FileErrorKind::Incomplete, error))?;
        let length = u32::try_from(read).expect("a chunk is short");
        chunk[..LENGTH].copy_from_slice(&length.to_le_bytes());
        let sent = stream.write_all(&chunk[..LENGTH + read]).await;
        sent.map_err(|error| subject.failed(FileErrorKind::Lost, error))?;
        if read == 0 {
            return Ok(());
        }
    }
}
