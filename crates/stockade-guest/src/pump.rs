//! Moving bytes between a program's pipes and its streams.

use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use yamux::Stream;

use crate::buffer::Buffer;
use crate::reactor::Descriptor;

const CHUNK_BYTES: usize = 64 << 10;

/// Moves the stream into the pipe and closes the pipe at its end.
///
/// When the program has closed its end the rest is taken and dropped, so that the host never
/// waits for it.
pub(crate) async fn input(mut stream: Stream, pipe: Descriptor) {
    let mut pipe = Some(pipe);
    let mut buffer = Buffer::new(CHUNK_BYTES);
    loop {
        let read = match stream.read(buffer.room()).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        if let Some(open) = &pipe
            && open.write_all(&buffer.bytes()[..read]).await.is_err()
        {
            pipe = None;
        }
        buffer.was_read(read);
    }
}

/// Moves all that comes out of the pipe into the stream and closes the stream at its end.
///
/// When the host has closed the stream the pipe is closed too, which the program then learns.
pub(crate) async fn output(pipe: Descriptor, mut stream: Stream) {
    let mut buffer = Buffer::new(CHUNK_BYTES);
    while let Ok(read @ 1..) = pipe.read(buffer.room()).await {
        if stream.write_all(&buffer.bytes()[..read]).await.is_err() {
            return;
        }
        buffer.was_read(read);
    }
    // A stream that cannot be closed is closed already.
    let _ = stream.close().await;
}
