//! Serves one request of one client.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use stockade_api::{
    ControlMessage, ExecuteParams, ExecutionView, Failure, Frame, FrameError, ProgramParams, Reply,
    Request, TerminalParams, read_frame, write_frame,
};
use stockade_engine::{ExecutionRequest, RunError, RunReport, StartedExecution, Streams};
use stockade_provider::{Language, Program, Stdio, TerminalSize, chain};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::contexts;
use crate::executions::{Handle, Input};
use crate::files;
use crate::hub::Stream;
use crate::keep;
use crate::ports;
use crate::supervisor::Shared;

/// The maximum size of code.
const MOST_CODE_BYTES: usize = 64 << 20;

/// How many bytes of output wait between the engine and the clients.
const BUFFERED: usize = 64 << 10;

/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves a client until its request is answered or it leaves.
pub(crate) async fn serve(
    mut stream: UnixStream,
    shared: Arc<Shared>,
    remove: mpsc::Sender<UnixStream>,
) {
    let Ok(Ok(Frame::Request(request))) = timeout(PATIENCE, read_frame(&mut stream)).await else {
        return;
    };
    // Reading the state is not a use: an open view would keep the session alive forever.
    if !matches!(request, Request::Inspect | Request::Ps | Request::Stats) {
        shared.touch();
    }
    let reply = match request {
        Request::Execute(params) => {
            execute(stream, params, &shared).await;
            shared.touch();
            return;
        }
        Request::Attach { execution } => match shared.executions.running(execution) {
            Some(handle) => return attach(stream, execution, handle, &shared).await,
            None => not_running(execution),
        },
        Request::Logs { execution, follow } => {
            return logs(stream, execution, follow, &shared).await;
        }
        Request::File(params) => {
            files::serve(stream, params, &shared).await;
            shared.touch();
            return;
        }
        Request::Context(params) => {
            contexts::serve(stream, params, &shared).await;
            shared.touch();
            return;
        }
        Request::Port(params) => ports::answer(params, &shared).await,
        Request::Signal { execution, signal } => match shared.executions.running(execution) {
            Some(handle) => match send_signal(&handle, signal).await {
                Ok(()) => Reply::Done,
                Err(error) => Reply::Failed(of_wall(&error)),
            },
            None => not_running(execution),
        },
        Request::Inspect => Reply::Session(Box::new(shared.view())),
        Request::Ps => Reply::Executions(shared.executions.views()),
        Request::Stats => Reply::Stats(shared.stats().await),
        // Both continue if the client leaves: programs must be resumed.
        Request::Checkpoint { name, store } => {
            let shared = Arc::clone(&shared);
            apart(async move { keep::checkpoint(&shared, &name, &store).await }).await
        }
        Request::Restore(params) => {
            let shared = Arc::clone(&shared);
            apart(async move { keep::restore(&shared, &params).await }).await
        }
        Request::SetSecret { name, value } => done(shared.set_secret(&name, value.0)),
        Request::Pause => done(shared.pause(true).await),
        Request::Resume => done(shared.pause(false).await),
        Request::Remove { force } => match shared.executions.count_running() {
            running if running > 0 && !force => Reply::Failed(Failure {
                message: match running {
                    1 => "cannot remove the session: 1 program runs in it".to_owned(),
                    many => format!("cannot remove the session: {many} programs run in it"),
                },
                remedy: "end them with `stockade kill`, or add --force".to_owned(),
            }),
            _ => {
                // Fails if the session is ending already.
                let _ = remove.send(stream).await;
                return;
            }
        },
    };
    let _ = write_frame(&mut stream, &Frame::Reply(reply)).await;
}

async fn execute(mut stream: UnixStream, params: ExecuteParams, shared: &Arc<Shared>) {
    let program = match program(&mut stream, &params.program).await {
        Ok(program) => program,
        Err(failure) => {
            let _ = write_frame(&mut stream, &Frame::Reply(Reply::Failed(failure))).await;
            return;
        }
    };
    let (reader, mut writer) = stream.into_split();
    let request = ExecutionRequest {
        environment: params.environment.clone(),
        credentials: params.credentials.clone(),
        working_directory: params.working_directory.clone(),
        timeout: params.timeout_ms.map(Duration::from_millis),
        stdio: params.terminal.map_or(Stdio::Pipes, |size| Stdio::Terminal(terminal_size(size))),
        ..ExecutionRequest::new(program)
    };
    let (input, stdin) = params.input.then(input).unzip();
    let ((live_output, output), (live_error, error)) = (duplex(BUFFERED), duplex(BUFFERED));
    let streams = Streams {
        stdin: stdin.map(|stdin| Box::new(stdin) as Box<_>),
        live: Some((Box::new(live_output), Box::new(live_error))),
        capture: false,
    };
    let (left, is_left) = watch::channel(false);
    let (sender, started) = oneshot::channel();
    let running = {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let cancel = stop(is_left, shared.ending.subscribe());
            shared.session.execute_with(request, streams, cancel, Some(sender)).await
        })
    };
    let started = match started.await {
        Ok(started) => started,
        // The program never ran; the result has the reason.
        Err(_) => {
            let result = joined(running).await;
            if let Ok(report) = &result {
                shared.activity.ended(&report.denials);
            }
            let reply = reply(result);
            let _ = write_frame(&mut writer, &Frame::Reply(reply)).await;
            return;
        }
    };
    shared.count_start();
    let execution = started.execution;
    let frames = shared.hub.attach(execution);
    let handle = follow(shared, started, &params, input, running, (output, error));
    let accepted = Frame::Reply(Reply::Started { execution });
    if write_frame(&mut writer, &accepted).await.is_err() && !params.detach {
        left.send_replace(true);
    }
    if params.detach {
        // Keeps the sender: a dropped one would cancel the program.
        let mut end = handle.end.clone();
        drop((reader, writer, frames));
        end_of(&mut end).await;
        return;
    }
    relay(reader, writer, frames, &handle, Some(left)).await;
}

/// Registers a program and follows it to its end, with or without clients.
fn follow(
    shared: &Arc<Shared>,
    started: StartedExecution,
    params: &ExecuteParams,
    input: Option<Input>,
    running: JoinHandle<Result<RunReport, RunError>>,
    (output, error): (DuplexStream, DuplexStream),
) -> Handle {
    let StartedExecution { execution, control } = started;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let view = ExecutionView {
        execution,
        state: "running".to_owned(),
        code: None,
        started: since.map_or(0, |since| since.as_secs()),
        command: words(&params.program),
        detached: params.detach,
        terminal: params.terminal.is_some(),
    };
    let (sender, end) = watch::channel(None);
    let handle = Handle { control, input, end };
    shared.executions.add(view, handle.clone());
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let (result, (), ()) = tokio::join!(
            joined(running),
            shared.hub.pump(execution, Stream::Output, output),
            shared.hub.pump(execution, Stream::Error, error)
        );
        if let Ok(report) = &result {
            shared.activity.ended(&report.denials);
        }
        let reply = reply(result);
        let (state, code) = match &reply {
            Reply::Ended { code, report } => (report["outcome"].as_str().unwrap_or("error"), *code),
            _ => ("error", 125),
        };
        shared.executions.ended(execution, state, code);
        shared.touch();
        sender.send_replace(Some(reply));
    });
    handle
}

async fn attach(stream: UnixStream, execution: u64, handle: Handle, shared: &Arc<Shared>) {
    let frames = shared.hub.attach(execution);
    let (reader, mut writer) = stream.into_split();
    let accepted = Frame::Reply(Reply::Started { execution });
    if write_frame(&mut writer, &accepted).await.is_ok() {
        relay(reader, writer, frames, &handle, None).await;
    }
}

/// Relays between a client and a program until the program ends or the client leaves. A client
/// leaves by closing its end for writing; `left` then cancels the program, and the client may still
/// read the program's end.
pub(crate) async fn relay(
    mut reader: OwnedReadHalf,
    mut writer: OwnedWriteHalf,
    frames: mpsc::Receiver<Frame>,
    handle: &Handle,
    left: Option<watch::Sender<bool>>,
) {
    let mut end = handle.end.clone();
    {
        // Input is received while a frame is sent: a client may leave without reading.
        let mut sending = std::pin::pin!(send(&mut writer, frames, handle.end.clone()));
        tokio::select! {
            () = &mut sending => {}
            () = listen(&mut reader, handle) => {
                let Some(left) = &left else { return };
                left.send_replace(true);
                let _ = timeout(PATIENCE, sending).await;
            }
        }
    }
    if let Some(left) = left {
        // The client may have left while a frame was sent.
        left.send_replace(true);
        end_of(&mut end).await;
    }
}

/// Sends the output of a program, then the reply that reports its end.
async fn send(
    writer: &mut OwnedWriteHalf,
    mut frames: mpsc::Receiver<Frame>,
    mut end: watch::Receiver<Option<Reply>>,
) {
    let reply = loop {
        tokio::select! {
            biased;
            Some(frame) = frames.recv() => {
                if write_frame(writer, &frame).await.is_err() {
                    return;
                }
            }
            // All output was published before.
            reply = end_of(&mut end) => break reply,
        }
    };
    let rest = std::iter::from_fn(|| frames.try_recv().ok());
    for frame in rest.chain(reply.map(Frame::Reply)) {
        if write_frame(writer, &frame).await.is_err() {
            return;
        }
    }
}

/// Carries out a request in a task of its own.
async fn apart(work: impl Future<Output = Reply> + Send + 'static) -> Reply {
    tokio::spawn(work).await.unwrap_or_else(|_| {
        Reply::Failed(Failure {
            message: "the request was stopped with the session".to_owned(),
            remedy: "see which sessions there are, with `stockade ls`".to_owned(),
        })
    })
}

/// The reply that reports a program's end.
async fn end_of(end: &mut watch::Receiver<Option<Reply>>) -> Option<Reply> {
    end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone())
}

/// Receives input and control messages. Resolves when the client has left.
async fn listen(reader: &mut OwnedReadHalf, handle: &Handle) {
    loop {
        let message = match read_frame(reader).await {
            Ok(Frame::Input(bytes)) => Some(bytes),
            Ok(Frame::InputEnd) => None,
            Ok(Frame::Control(ControlMessage::Signal { signal })) => {
                // A program that has ended receives no signal.
                let _ = send_signal(handle, signal).await;
                continue;
            }
            Ok(Frame::Control(ControlMessage::Resize(size))) => {
                let _ = handle.control.resize(terminal_size(size)).await;
                continue;
            }
            Ok(_) | Err(_) => return,
        };
        let Some(input) = &handle.input else { continue };
        let mut sending = std::pin::pin!(input.send(message));
        loop {
            tokio::select! {
                _ = &mut sending => break,
                // The program does not read its input; the client may leave meanwhile.
                () = sleep(Duration::from_millis(50)) => {
                    if is_gone(reader) {
                        return;
                    }
                }
            }
        }
    }
}

/// Whether the client has closed its end, even if bytes of it are unread.
fn is_gone(reader: &OwnedReadHalf) -> bool {
    let socket: &UnixStream = reader.as_ref();
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok_and(|count| count > 0)
}

async fn logs(mut stream: UnixStream, execution: Option<u64>, follow: bool, shared: &Arc<Shared>) {
    let (mut frames, kept) = shared.hub.log(execution);
    if let Some(number) = execution
        && kept.is_empty()
        && !shared.executions.views().iter().any(|view| view.execution == number)
    {
        let _ = write_frame(&mut stream, &Frame::Reply(not_known(number))).await;
        return;
    }
    for frame in kept {
        if write_frame(&mut stream, &frame).await.is_err() {
            return;
        }
    }
    let end = ended(execution, shared);
    if follow && !follow_log(&mut stream, &mut frames, shared, end).await {
        return;
    }
    let _ = write_frame(&mut stream, &Frame::Reply(Reply::Done)).await;
}

/// Resolves when the program has ended, or never if the whole session is followed.
fn ended(execution: Option<u64>, shared: &Shared) -> impl Future<Output = ()> + use<> {
    let running = execution.map(|number| shared.executions.running(number));
    async move {
        match running {
            None => std::future::pending().await,
            // It has ended already.
            Some(None) => {}
            // Fails if the task that follows the program is gone.
            Some(Some(mut running)) => _ = running.end.wait_for(Option::is_some).await,
        }
    }
}

/// Sends output as it comes until `end` resolves or the session ends. Returns whether the client is
/// still there.
async fn follow_log(
    stream: &mut UnixStream,
    frames: &mut mpsc::Receiver<Frame>,
    shared: &Shared,
    end: impl Future<Output = ()>,
) -> bool {
    let (mut reader, mut writer) = stream.split();
    let mut ending = shared.ending.subscribe();
    let mut end = std::pin::pin!(end);
    loop {
        let frame = tokio::select! {
            Some(frame) = frames.recv() => frame,
            () = &mut end => break,
            _ = ending.wait_for(|ending| *ending) => break,
            _ = read_frame(&mut reader) => return false,
        };
        if write_frame(&mut writer, &frame).await.is_err() {
            return false;
        }
    }
    // What came before the end.
    while let Ok(frame) = frames.try_recv() {
        if write_frame(&mut writer, &frame).await.is_err() {
            return false;
        }
    }
    true
}

/// The input of a program: what clients send, up to its end.
fn input() -> (Input, DuplexStream) {
    let (input, mut messages) = mpsc::channel::<Option<Vec<u8>>>(4);
    let (stdin, mut writer) = duplex(BUFFERED);
    tokio::spawn(async move {
        while let Some(Some(bytes)) = messages.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
        // Further input is read and dropped, so that no client waits.
        while messages.recv().await.is_some() {}
    });
    (input, stdin)
}

/// Resolves when the client has left or the session ends.
pub(crate) async fn stop(mut left: watch::Receiver<bool>, mut ending: watch::Receiver<bool>) {
    let left = async {
        // A dropped sender means that the program runs detached or is followed to its end.
        if left.wait_for(|left| *left).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = left => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

async fn program(stream: &mut UnixStream, params: &ProgramParams) -> Result<Program, Failure> {
    match params {
        ProgramParams::Command { argv } => Ok(Program::Command { argv: argv.clone() }),
        ProgramParams::Code { language, name, arguments } => {
            let language: Language = language.parse().map_err(|_| Failure {
                message: format!("cannot run code in {language:?}: the language is not known"),
                remedy: "use python, bash or javascript".to_owned(),
            })?;
            let code = code(stream).await?;
            let (name, arguments) = (name.clone(), arguments.clone());
            Ok(Program::Code { language, name, code, arguments })
        }
    }
}

pub(crate) async fn code(stream: &mut UnixStream) -> Result<Vec<u8>, Failure> {
    let mut code = Vec::new();
    loop {
        match read_frame(stream).await {
            Ok(Frame::Code(bytes)) if code.len() + bytes.len() <= MOST_CODE_BYTES => {
                code.extend_from_slice(&bytes);
            }
            Ok(Frame::CodeEnd) => return Ok(code),
            Ok(Frame::Code(_)) => {
                return Err(Failure {
                    message: format!("cannot run code of more than {MOST_CODE_BYTES} bytes"),
                    remedy: "copy it into the session as a file, and run that".to_owned(),
                });
            }
            Ok(_) | Err(FrameError::Closed) => return Err(incomplete("it ended early".to_owned())),
            Err(error) => return Err(incomplete(chain(&error))),
        }
    }
}

fn incomplete(why: String) -> Failure {
    Failure { message: format!("cannot receive the code: {why}"), remedy: "try again".to_owned() }
}

fn words(program: &ProgramParams) -> Vec<String> {
    match program {
        ProgramParams::Command { argv } => argv.clone(),
        ProgramParams::Code { language, name, arguments } => {
            [language, name].into_iter().chain(arguments).cloned().collect()
        }
    }
}

async fn send_signal(handle: &Handle, signal: i32) -> Result<(), stockade_provider::Error> {
    const SIGKILL: i32 = 9;
    match signal {
        SIGKILL => handle.control.kill().await,
        signal => handle.control.signal(signal).await,
    }
}

async fn joined(running: JoinHandle<Result<RunReport, RunError>>) -> Result<RunReport, Failure> {
    match running.await {
        Ok(result) => result.map_err(|error| of_run(&error)),
        Err(error) => Err(Failure {
            message: format!("the task of the program failed: {error}"),
            remedy: "report this as a bug".to_owned(),
        }),
    }
}

fn reply(result: Result<RunReport, Failure>) -> Reply {
    match result {
        Ok(report) => {
            let code = report.outcome.cli_code();
            Reply::Ended { code, report: serde_json::to_value(&report).unwrap_or(Value::Null) }
        }
        Err(failure) => Reply::Failed(failure),
    }
}

fn done(result: Result<(), RunError>) -> Reply {
    result.map_or_else(|error| Reply::Failed(of_run(&error)), |()| Reply::Done)
}

fn not_running(execution: u64) -> Reply {
    Reply::Failed(Failure {
        message: format!("execution {execution} does not run"),
        remedy: "list the programs with `stockade ps`".to_owned(),
    })
}

/// A number that no program of the session has, or that is forgotten.
fn not_known(execution: u64) -> Reply {
    Reply::Failed(Failure {
        message: format!("the session has no execution {execution}"),
        remedy: "list its executions with `stockade ps`".to_owned(),
    })
}

pub(crate) fn of_run(error: &RunError) -> Failure {
    match error {
        RunError::Wall(error) => of_wall(error),
        RunError::Store(failure) => Failure { message: chain(error), remedy: failure.remedy() },
        RunError::Secret(failure) => {
            Failure { message: chain(error), remedy: failure.remedy().to_owned() }
        }
        RunError::Variable(failure) => {
            Failure { message: chain(error), remedy: failure.remedy().to_owned() }
        }
        RunError::VariableTaken { .. } => Failure {
            message: chain(error),
            remedy: "leave it out, or remove it from the policy".to_owned(),
        },
        RunError::VariableValue { .. } => {
            Failure { message: chain(error), remedy: "pass large values as a file".to_owned() }
        }
        RunError::State { remedy, .. } => {
            Failure { message: chain(error), remedy: (*remedy).to_owned() }
        }
        error => Failure {
            message: chain(error),
            remedy: "look at the session with `stockade inspect`".to_owned(),
        },
    }
}

fn of_wall(error: &stockade_provider::Error) -> Failure {
    let remedy = error.remedy().unwrap_or("look at the session with `stockade inspect`");
    Failure { message: chain(error), remedy: remedy.to_owned() }
}

fn terminal_size(size: TerminalParams) -> TerminalSize {
    TerminalSize { columns: size.columns, rows: size.rows }
}
