//! Copies bytes between a program's pipes or terminal and its streams.

use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::buffer::Buffer;
use crate::reactor::Descriptor;
use crate::terminal::Terminal;

const CHUNK_BYTES: usize = 64 << 10;

/// Copies the stream to the pipe and closes the pipe at the end of the stream.
///
/// If the program has closed its end, reads and drops the rest, so that the host never blocks.
pub(crate) async fn input(mut stream: impl AsyncRead + Unpin, pipe: Descriptor) {
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

/// Copies the pipe to the stream and closes the stream at the end of the pipe.
///
/// If the host closes the stream, closes the pipe, so that the program gets SIGPIPE or EPIPE.
pub(crate) async fn output(pipe: Descriptor, mut stream: impl AsyncWrite + Unpin) {
    let mut buffer = Buffer::new(CHUNK_BYTES);
    while let Ok(read @ 1..) = pipe.read(buffer.room()).await {
        if stream.write_all(&buffer.bytes()[..read]).await.is_err() {
            return;
        }
        buffer.was_read(read);
    }
    // Fails only if the stream is closed already.
    let _ = stream.close().await;
}

/// Copies the stream to the terminal, and types the end of the input at the end of the stream.
///
/// If no process uses the terminal, reads and drops the rest, so that the host never blocks.
pub(crate) async fn terminal_input(mut stream: yamux::Stream, terminal: &Terminal) {
    let mut buffer = Buffer::new(CHUNK_BYTES);
    let mut last = None;
    while let Ok(read @ 1..) = stream.read(buffer.room()).await {
        let bytes = &buffer.bytes()[..read];
        if terminal.descriptor.write_all(bytes).await.is_ok() {
            last = bytes.last().copied();
        }
        buffer.was_read(read);
    }
    let _ = terminal.descriptor.write_all(&terminal.end_of_input(last)).await;
}

/// Copies the terminal to the stream until no process has the terminal open, which the kernel
/// reports as EIO, or until the host closes the stream.
pub(crate) async fn terminal_output(terminal: &Terminal, stream: &mut yamux::Stream) {
    let mut buffer = Buffer::new(CHUNK_BYTES);
    while let Ok(read @ 1..) = terminal.descriptor.read(buffer.room()).await {
        if stream.write_all(&buffer.bytes()[..read]).await.is_err() {
            return;
        }
        buffer.was_read(read);
    }
}
