//! The streams of a program, between the engine and Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Mutex, mpsc};

use stockade_engine::Live;

use crate::failure::Problem;
use crate::operation::{Answer, Finished, nothing};

/// How much of each stream is buffered before backpressure stops its writer.
const BUFFER_BYTES: usize = 64 * 1024;

/// How many pieces of output wait for Python.
const PIECES: usize = 16;

/// One piece of output: the descriptor, 1 or 2, and its bytes.
type Piece = (u8, Vec<u8>);

/// The output of a program while it runs.
pub(crate) struct Output(Mutex<mpsc::Receiver<Piece>>);

impl Output {
    /// The receiving end, the writers for the engine, and the task that connects them.
    pub(crate) fn new() -> (Output, Live, impl Future<Output = ()> + Send) {
        let (stdout, stdout_source) = duplex(BUFFER_BYTES);
        let (stderr, stderr_source) = duplex(BUFFER_BYTES);
        let (sender, receiver) = mpsc::channel(PIECES);
        let other = sender.clone();
        let relay = async move {
            tokio::join!(relay(1, stdout_source, sender), relay(2, stderr_source, other));
        };
        (Output(Mutex::new(receiver)), (Box::new(stdout), Box::new(stderr)), relay)
    }

    /// The next piece; `None` at the end of both streams.
    pub(crate) async fn next(&self) -> Finished {
        let piece = self.0.lock().await.recv().await;
        let answer: Answer = Box::new(move |py| {
            let Some((stream, bytes)) = piece else { return Ok(py.None()) };
            Ok((stream, PyBytes::new(py, &bytes)).into_pyobject(py)?.into_any().unbind())
        });
        Ok(answer)
    }
}

/// Reads a stream to its end. Discards it if no one receives it any more: a program whose handle
/// is gone continues.
async fn relay(stream: u8, mut source: impl AsyncRead + Unpin, sender: mpsc::Sender<Piece>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        let _ = sender.send((stream, buffer[..count].to_vec())).await;
    }
}

/// The standard input of a program while it runs.
pub(crate) struct Input(Mutex<Option<DuplexStream>>);

impl Input {
    /// The sending end, and the reader for the engine.
    pub(crate) fn new() -> (Input, DuplexStream) {
        let (sender, reader) = duplex(BUFFER_BYTES);
        (Input(Mutex::new(Some(sender))), reader)
    }

    /// Sends all bytes.
    pub(crate) async fn write(&self, bytes: Vec<u8>) -> Finished {
        let mut input = self.0.lock().await;
        let Some(stream) = input.as_mut() else { return Err(input_closed()) };
        match stream.write_all(&bytes).await {
            Ok(()) => Ok(nothing()),
            Err(_) => Err(input_closed()),
        }
    }

    /// Ends the input.
    pub(crate) async fn close(&self) -> Finished {
        self.0.lock().await.take();
        Ok(nothing())
    }
}

fn input_closed() -> Problem {
    let message = "the standard input of the program is closed";
    Problem::new("input_closed", message, "send input only while the program reads it")
}
