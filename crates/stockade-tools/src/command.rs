//! A tool that is a program: it reads the arguments as JSON from stdin and writes the result as
//! JSON to stdout.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::fault::{Code, Fault};
use crate::json::{JsonError, read};
use crate::program::{Group, Pipes, Program, read_tail, read_up_to};
use crate::run::{Call, Run};
use crate::words::last_line;

/// How many bytes of a program's stderr are kept.
const KEPT_ERRORS: usize = 4096;

/// The longest error message taken from stderr, in characters.
const MAX_MESSAGE: usize = 800;

/// How long to read remaining output after the program has exited.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// The most concurrent programs of one tool; further calls wait. Each needs a process and several
/// descriptors of this process.
const MOST_PROGRAMS: usize = 32;

/// Starts a program for each call.
#[derive(Debug)]
pub(crate) struct CommandTool {
    program: Program,
    permits: Arc<Semaphore>,
}

impl CommandTool {
    pub(crate) fn new(program: Program) -> CommandTool {
        CommandTool { program, permits: Arc::new(Semaphore::new(MOST_PROGRAMS)) }
    }
}

impl Run for CommandTool {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let (program, permits) = (self.program.clone(), Arc::clone(&self.permits));
        Box::pin(async move {
            let _permit = permits.acquire_owned().await;
            run_program(program, call).await
        })
    }
}

async fn run_program(program: Program, call: Call) -> Result<Value, Fault> {
    let (mut group, pipes) = program
        .start()
        .map_err(|error| Fault::broken(format!("the tool cannot be started: {error}")))?;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = exchange(&mut group, pipes, &call, (&mut output, &mut errors)).await?;
    if !status.success() {
        return Err(failure(status, &errors));
    }
    if output.iter().all(u8::is_ascii_whitespace) {
        let message = "the tool ended without a result; it must write JSON, such as `null`";
        return Err(Fault::new(Code::InvalidResult, message));
    }
    read(&output, call.bounds).map_err(|error| Fault::result(&error))
}

/// Writes the arguments to a program and reads its output until it exits. The first fault drops the
/// program, which kills it.
async fn exchange(
    group: &mut Group,
    pipes: Pipes,
    call: &Call,
    (output, errors): (&mut Vec<u8>, &mut Vec<u8>),
) -> Result<ExitStatus, Fault> {
    let Pipes { mut input, output: stdout, errors: stderr } = pipes;
    let (arguments, most) = (call.arguments.to_string(), call.bounds.bytes);
    let feed = async move {
        // A program that does not read its arguments may close stdin.
        let _ = input.write_all(arguments.as_bytes()).await;
        Ok(())
    };
    let receive = async {
        read_up_to(stdout, most, output).await.map_err(unreadable)?;
        let is_whole = output.len() <= most;
        is_whole.then_some(()).ok_or_else(|| Fault::result(&JsonError::TooLarge { most }))
    };
    let keep_errors = async {
        read_tail(stderr, KEPT_ERRORS, errors).await;
        Ok(())
    };
    let pipes = async { tokio::try_join!(feed, receive, keep_errors) };
    let end = async { group.end().await.map_err(unreadable) };
    tokio::pin!(pipes, end);
    tokio::select! {
        exchanged = &mut pipes => {
            exchanged?;
            end.await
        }
        status = &mut end => {
            // A process that left the group may keep a pipe open indefinitely.
            if let Ok(exchanged) = timeout(DRAIN_TIME, pipes).await {
                exchanged?;
            }
            status
        }
    }
}

fn unreadable(error: std::io::Error) -> Fault {
    Fault::broken(format!("the tool's output cannot be read: {error}"))
}

fn failure(status: ExitStatus, errors: &[u8]) -> Fault {
    let message = last_line(errors, MAX_MESSAGE);
    match (status.signal(), message) {
        (Some(signal), Some(message)) => {
            Fault::broken(format!("the tool was ended by signal {signal}: {message}"))
        }
        (Some(signal), None) => Fault::broken(format!("the tool was ended by signal {signal}")),
        (None, Some(message)) => Fault::failed(message),
        (None, None) => {
            let code = status.code().unwrap_or_default();
            Fault::failed(format!("the tool ended with code {code} and gave no reason"))
        }
    }
}
