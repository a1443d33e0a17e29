//! A tool that is a program: arguments as JSON on its input, the result as JSON on its output.

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

/// How much of what a program says on its error output is kept.
const KEPT_ERRORS: usize = 4096;

/// The longest message that is made of it, in characters.
const MAX_SAID: usize = 800;

/// How long what a program wrote may take to be read after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The most programs of one tool at the same time; calls beyond wait. Each takes a process and
/// several descriptors of this one.
const MOST_PROGRAMS: usize = 32;

/// Starts a program for every call.
#[derive(Debug)]
pub(crate) struct CommandTool {
    program: Program,
    places: Arc<Semaphore>,
}

impl CommandTool {
    pub(crate) fn new(program: Program) -> CommandTool {
        CommandTool { program, places: Arc::new(Semaphore::new(MOST_PROGRAMS)) }
    }
}

impl Run for CommandTool {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let (program, places) = (self.program.clone(), Arc::clone(&self.places));
        Box::pin(async move {
            let _place = places.acquire_owned().await;
            converse(program, call).await
        })
    }
}

async fn converse(program: Program, call: Call) -> Result<Value, Fault> {
    let (mut group, pipes) = program
        .start()
        .map_err(|error| Fault::broken(format!("the tool cannot be started: {error}")))?;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = talk(&mut group, pipes, &call, (&mut output, &mut errors)).await?;
    if !status.success() {
        return Err(failure(status, &errors));
    }
    if output.iter().all(u8::is_ascii_whitespace) {
        let message = "the tool ended without a result; it must write JSON, such as `null`";
        return Err(Fault::new(Code::InvalidResult, message));
    }
    read(&output, call.bounds).map_err(|error| Fault::result(&error))
}

/// Gives a program its arguments and hears it up to its end. The first fault drops the program, and
/// so ends it.
async fn talk(
    group: &mut Group,
    pipes: Pipes,
    call: &Call,
    (output, errors): (&mut Vec<u8>, &mut Vec<u8>),
) -> Result<ExitStatus, Fault> {
    let Pipes { mut input, output: results, errors: complaints } = pipes;
    let (arguments, most) = (call.arguments.to_string(), call.bounds.bytes);
    let feed = async move {
        // A program that does not want its arguments may close its input.
        let _ = input.write_all(arguments.as_bytes()).await;
        Ok(())
    };
    let hear = async {
        read_up_to(results, most, output).await.map_err(unheard)?;
        let is_whole = output.len() <= most;
        is_whole.then_some(()).ok_or_else(|| Fault::result(&JsonError::TooLarge { most }))
    };
    let complain = async {
        read_tail(complaints, KEPT_ERRORS, errors).await;
        Ok(())
    };
    let pipes = async { tokio::try_join!(feed, hear, complain) };
    let end = async { group.end().await.map_err(unheard) };
    tokio::pin!(pipes, end);
    tokio::select! {
        talked = &mut pipes => {
            talked?;
            end.await
        }
        status = &mut end => {
            // A process that left the group may keep a pipe open for as long as it likes.
            if let Ok(talked) = timeout(LAST_WORDS, pipes).await {
                talked?;
            }
            status
        }
    }
}

fn unheard(error: std::io::Error) -> Fault {
    Fault::broken(format!("the tool's output cannot be read: {error}"))
}

fn failure(status: ExitStatus, errors: &[u8]) -> Fault {
    let said = last_line(errors, MAX_SAID);
    match (status.signal(), said) {
        (Some(signal), Some(said)) => {
            Fault::broken(format!("the tool was ended by signal {signal}: {said}"))
        }
        (Some(signal), None) => Fault::broken(format!("the tool was ended by signal {signal}")),
        (None, Some(said)) => Fault::failed(said),
        (None, None) => {
            let code = status.code().unwrap_or_default();
            Fault::failed(format!("the tool ended with code {code} and did not say why"))
        }
    }
}
