//! Serves requests about the contexts of a session.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stockade_api::{
    ContextName, ContextParams, ExecutionView, Failure, Frame, Reply, ResultPart,
    RunInContextParams, write_frame,
};
use stockade_engine::{
    CallReport, ContextCall, ContextError, ContextEvent, ContextRequest, OutputStream,
};
use stockade_provider::chain;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};

use crate::connection::{code, of_run, relay, stop};
use crate::executions::Handle;
use crate::hub::Stream;
use crate::supervisor::Shared;

/// How many events of a call wait for the client.
const WAITING: usize = 16;

/// Answers a request about contexts.
pub(crate) async fn serve(mut stream: UnixStream, params: ContextParams, shared: &Arc<Shared>) {
    let reply = match params {
        ContextParams::Run(params) => return run(stream, params, shared).await,
        other => answer(other, shared).await.unwrap_or_else(Reply::Failed),
    };
    let _ = write_frame(&mut stream, &Frame::Reply(reply)).await;
}

async fn answer(params: ContextParams, shared: &Shared) -> Result<Reply, Failure> {
    let session = &shared.session;
    let of_context = |error: ContextError| failure(&error);
    Ok(match params {
        ContextParams::Create(params) => {
            let request = ContextRequest {
                name: params.name.as_deref().map(parsed).transpose()?,
                language: params.language,
                working_directory: params.working_directory,
                environment: params.environment,
                credentials: params.credentials,
            };
            Reply::Contexts(vec![session.create_context(request).await.map_err(of_context)?])
        }
        ContextParams::List => Reply::Contexts(session.contexts()),
        ContextParams::Interrupt { name } => {
            session.interrupt_context(&parsed(&name)?).await.map_err(of_context)?;
            Reply::Done
        }
        ContextParams::Restart { name } => {
            let name = parsed(&name)?;
            Reply::Contexts(vec![session.restart_context(&name).await.map_err(of_context)?])
        }
        ContextParams::Remove { name } => {
            session.remove_context(&parsed(&name)?).await.map_err(of_context)?;
            Reply::Done
        }
        ContextParams::Run(_) => unreachable!("a call is served by `run`"),
    })
}

/// Runs a call; the client receives what it writes and shows, and its end.
async fn run(mut stream: UnixStream, params: RunInContextParams, shared: &Arc<Shared>) {
    let received = async { Ok((parsed(&params.name)?, code(&mut stream).await?)) };
    let (name, code) = match received.await {
        Ok(received) => received,
        Err(failure) => {
            let _ = write_frame(&mut stream, &Frame::Reply(Reply::Failed(failure))).await;
            return;
        }
    };
    let call = ContextCall {
        language: params.language,
        code,
        environment: params.environment,
        credentials: params.credentials,
        timeout: params.timeout_ms.map(Duration::from_millis),
        rules: None,
    };
    let (reader, mut writer) = stream.into_split();
    let (left, is_left) = watch::channel(false);
    let (sender, started) = oneshot::channel();
    let (events, received) = mpsc::channel(WAITING);
    let words = vec!["context".to_owned(), name.as_str().to_owned()];
    let running = {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let cancel = stop(is_left, shared.ending.subscribe());
            let called = shared.session.run_in_context(&name, call, events, cancel, Some(sender));
            reply(called.await)
        })
    };
    let Ok(started) = started.await else {
        // The code never ran; the result has the reason.
        let reply = running.await.unwrap_or_else(|error| Reply::Failed(broken(&error)));
        let _ = write_frame(&mut writer, &Frame::Reply(reply)).await;
        return;
    };
    shared.count_start();
    let execution = started.execution;
    let frames = shared.hub.attach(execution);
    let (end, is_ended) = watch::channel(None);
    let handle = Handle { control: started.control, input: None, end: is_ended };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let view = ExecutionView {
        execution,
        state: "running".to_owned(),
        code: None,
        started: since.map_or(0, |since| since.as_secs()),
        command: words,
        detached: false,
        terminal: false,
    };
    shared.executions.add(view, handle.clone());
    let following = Arc::clone(shared);
    tokio::spawn(async move {
        // All events come before the end of the call.
        pass(received, execution, &following).await;
        let reply = running.await.unwrap_or_else(|error| Reply::Failed(broken(&error)));
        let (state, code) = match &reply {
            Reply::Ended { code, report } => (report["outcome"].as_str().unwrap_or("error"), *code),
            _ => ("error", 125),
        };
        following.executions.ended(execution, state, code);
        following.touch();
        end.send_replace(Some(reply));
    });
    let accepted = Frame::Reply(Reply::Started { execution });
    if write_frame(&mut writer, &accepted).await.is_err() {
        left.send_replace(true);
    }
    relay(reader, writer, frames, &handle, Some(left)).await;
}

/// Passes the events of a call on until it has ended.
async fn pass(mut events: mpsc::Receiver<ContextEvent>, execution: u64, shared: &Shared) {
    while let Some(event) = events.recv().await {
        match event {
            ContextEvent::Output(OutputStream::Stdout, bytes) => {
                shared.hub.add(execution, Stream::Output, bytes).await;
            }
            ContextEvent::Output(OutputStream::Stderr, bytes) => {
                shared.hub.add(execution, Stream::Error, bytes).await;
            }
            ContextEvent::Result(result) => {
                // Values of JSON can be written as JSON.
                for part in ResultPart::of(&result).unwrap_or_default() {
                    shared.hub.pass(execution, Frame::Result(part)).await;
                }
            }
        }
    }
}

fn reply(result: Result<CallReport, ContextError>) -> Reply {
    match result {
        Ok(called) => {
            let code = called.report.outcome.cli_code();
            Reply::Ended { code, report: serde_json::to_value(&called).unwrap_or_default() }
        }
        Err(error) => Reply::Failed(failure(&error)),
    }
}

fn parsed(name: &str) -> Result<ContextName, Failure> {
    name.parse().map_err(|error: stockade_api::ContextNameError| Failure {
        message: error.to_string(),
        remedy: "choose a short word".to_owned(),
    })
}

fn failure(error: &ContextError) -> Failure {
    match (error, error.remedy()) {
        (ContextError::Run(error), _) => of_run(error),
        (error, remedy) => Failure {
            message: chain(error),
            remedy: remedy.unwrap_or("look at the session with `stockade inspect`").to_owned(),
        },
    }
}

fn broken(error: &tokio::task::JoinError) -> Failure {
    Failure {
        message: format!("the task of the call failed: {error}"),
        remedy: "report this as a bug".to_owned(),
    }
}
