//! One program of a session that another process holds: frames to and from its supervisor.

use std::path::Path;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::json;
use stockade_api::{
    ControlMessage, ExecuteParams, Frame, MAX_FRAME_BYTES, Reply, Request, read_frame, write_frame,
};
use stockade_engine::{StartedExecution, Streams};
use stockade_provider::{Error, ErrorKind, ExecutionControl, ExecutionUsage, TerminalSize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

use crate::execution::Progress;
use crate::failure::Problem;
use crate::operation::{Cancelled, Finished};
use crate::remote::{failed, lost, open, unexpected};
use crate::report;

/// The code of a program, if it is code.
pub(crate) type Code = Option<Vec<u8>>;

const SIGKILL: i32 = 9;

/// Executes a program and returns its report, as for a session of this process.
pub(crate) async fn execute(
    socket: &Path,
    params: ExecuteParams,
    code: Code,
    mut streams: Streams,
    mut cancelled: Cancelled,
    progress: &watch::Sender<Progress>,
) -> Finished {
    let (mut reader, mut writer) = open(socket)?.into_split();
    write_frame(&mut writer, &Frame::Request(Request::Execute(params))).await.map_err(lost)?;
    if let Some(code) = code {
        send_code(&mut writer, &code).await;
    }
    let (controls, receiver) = mpsc::channel(8);
    let (kill, mut is_cancelled) = (controls.clone(), false);
    let sender = tokio::spawn(send(writer, streams.stdin.take(), receiver));
    let mut received = std::pin::pin!(receive(&mut reader, streams, controls, progress));
    let result = loop {
        tokio::select! {
            result = &mut received => break result,
            () = cancelled.wait(), if !is_cancelled => {
                is_cancelled = true;
                // Fails if the program has ended.
                let _ = kill.send(ControlMessage::Signal { signal: SIGKILL }).await;
            }
        }
    };
    sender.abort();
    let mut ended = result?;
    if is_cancelled {
        (ended.report["outcome"], ended.report["signal"]) = (json!("cancelled"), json!(null));
    }
    Ok(report::of_parts(ended.report, ended.stdout, ended.stderr))
}

/// Sends code. A supervisor that refuses the request stops reading it, and its reply has the
/// reason.
pub(crate) async fn send_code(writer: &mut OwnedWriteHalf, code: &[u8]) {
    let parts = code.chunks(MAX_FRAME_BYTES).map(|part| Frame::Code(part.to_vec()));
    for frame in parts.chain([Frame::CodeEnd]) {
        if write_frame(writer, &frame).await.is_err() {
            return;
        }
    }
}

/// What a program left.
struct Ended {
    report: serde_json::Value,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Receives output until the program has ended. The supervisor keeps the limit for output.
async fn receive(
    reader: &mut OwnedReadHalf,
    streams: Streams,
    controls: mpsc::Sender<ControlMessage>,
    progress: &watch::Sender<Progress>,
) -> Result<Ended, Problem> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut live_stdout, mut live_stderr) = streams.live.unzip();
    loop {
        match read_frame(reader).await.map_err(lost)? {
            Frame::Output(bytes) => {
                relay(&mut live_stdout, &bytes).await;
                stdout.extend(bytes);
            }
            Frame::Error(bytes) => {
                relay(&mut live_stderr, &bytes).await;
                stderr.extend(bytes);
            }
            Frame::Reply(Reply::Started { execution }) => {
                let control = Arc::new(RemoteControl(controls.clone()));
                progress.send_modify(|progress| {
                    progress.started = Some(Arc::new(StartedExecution { execution, control }));
                });
            }
            Frame::Reply(Reply::Ended { report, .. }) => {
                return Ok(Ended { report, stdout, stderr });
            }
            Frame::Reply(Reply::Failed(failure)) => return Err(failed(failure)),
            _ => return Err(unexpected()),
        }
    }
}

async fn relay(live: &mut Option<Box<dyn AsyncWrite + Send + Unpin>>, bytes: &[u8]) {
    if let Some(writer) = live {
        // A receiver that is gone does not end the program.
        let _ = writer.write_all(bytes).await;
    }
}

/// Sends input and controls until the program has ended.
async fn send(
    mut writer: OwnedWriteHalf,
    mut stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    mut controls: mpsc::Receiver<ControlMessage>,
) {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let frame = tokio::select! {
            biased;
            Some(control) = controls.recv() => Frame::Control(control),
            read = next(&mut stdin, &mut buffer) => match read {
                0 => {
                    stdin = None;
                    Frame::InputEnd
                }
                count => Frame::Input(buffer[..count].to_vec()),
            },
        };
        if write_frame(&mut writer, &frame).await.is_err() {
            return;
        }
    }
}

/// The size of the next input; 0 is its end. Never resolves without an input.
async fn next(stdin: &mut Option<Box<dyn AsyncRead + Send + Unpin>>, buffer: &mut [u8]) -> usize {
    match stdin {
        Some(stdin) => stdin.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Controls a program through its supervisor.
struct RemoteControl(mpsc::Sender<ControlMessage>);

impl RemoteControl {
    fn send(&self, control: ControlMessage) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            // Fails if the program has ended.
            let _ = self.0.send(control).await;
            Ok(())
        })
    }
}

impl ExecutionControl for RemoteControl {
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>> {
        self.send(ControlMessage::Signal { signal })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.send(ControlMessage::Signal { signal: SIGKILL })
    }

    fn resize(&self, _: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        let refused = Error::new(ErrorKind::Invalid, "the program has pipes, not a terminal");
        Box::pin(async move { Err(refused) })
    }

    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async { ExecutionUsage::default() })
    }
}
