//! Contexts and forwarded ports, of a session of this process and of another one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};
use stockade_api::{
    ContextParams, CreateContextParams, Frame, PortParams, Reply, Request, ResultParts,
    RunInContextParams, read_frame, write_frame,
};
use stockade_engine::{
    CallReport, ContextCall, ContextError, ContextEvent, ContextName, ContextRequest,
    ForwardedPort, OutputStream, PortError, Session,
};
use stockade_provider::chain;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Mutex, mpsc};

use crate::conversation::send_code;
use crate::failure::Problem;
use crate::operation::{Answer, Cancelled, Finished, Operation, nothing};
use crate::remote::{failed, lost, open, unexpected};
use crate::report;
use crate::runtime::Inner;
use crate::session::Running;

/// How many events wait for Python.
const EVENTS: usize = 16;

/// One event of a call, as Python receives it.
enum Event {
    Output(u8, Vec<u8>),
    Result(String),
}

/// A call of a context that runs.
#[pyclass(frozen)]
pub(crate) struct Call {
    runtime: Arc<Inner>,
    /// Ends with the call. Its result is the report as JSON, with what the call showed, standard
    /// output and standard error.
    #[pyo3(get)]
    operation: Py<Operation>,
    events: Arc<Mutex<mpsc::Receiver<Event>>>,
}

#[pymethods]
impl Call {
    /// The next event: 1 or 2 and output, or 0 and a value as JSON. None at the end.
    fn next_event(&self) -> PyResult<Operation> {
        let events = Arc::clone(&self.events);
        Ok(Operation::abortable(&self.runtime, async move {
            let event = events.lock().await.recv().await;
            let answer: Answer = Box::new(move |py| match event {
                Some(Event::Output(stream, bytes)) => {
                    Ok((stream, PyBytes::new(py, &bytes)).into_pyobject(py)?.into_any().unbind())
                }
                Some(Event::Result(text)) => Ok((0, text).into_pyobject(py)?.into_any().unbind()),
                None => Ok(py.None()),
            });
            Ok(answer)
        })?)
    }
}

impl Call {
    fn start<F>(
        py: Python<'_>,
        runtime: &Arc<Inner>,
        live: bool,
        call: impl FnOnce(Collected, Cancelled) -> F + Send + 'static,
    ) -> PyResult<Call>
    where
        F: Future<Output = Finished> + Send,
    {
        let (sender, events) = mpsc::channel(EVENTS);
        let collected = Collected { live: live.then_some(sender), ..Collected::default() };
        let operation =
            Operation::start(runtime, |cancelled| async move { call(collected, cancelled).await })?;
        let (runtime, operation) = (Arc::clone(runtime), Py::new(py, operation)?);
        Ok(Call { runtime, operation, events: Arc::new(Mutex::new(events)) })
    }
}

/// What a call wrote and showed so far.
#[derive(Default)]
struct Collected {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    results: Vec<Value>,
    live: Option<mpsc::Sender<Event>>,
}

impl Collected {
    async fn output(&mut self, stream: u8, bytes: Vec<u8>) {
        if stream == 1 { &mut self.stdout } else { &mut self.stderr }.extend_from_slice(&bytes);
        self.pass(Event::Output(stream, bytes)).await;
    }

    async fn result(&mut self, result: &stockade_api::ContextResult) {
        let value = json!(result);
        if self.live.is_some() {
            self.pass(Event::Result(value.to_string())).await;
        }
        self.results.push(value);
    }

    async fn pass(&mut self, event: Event) {
        if let Some(live) = &self.live {
            // A receiver that is gone does not end the call.
            let _ = live.send(event).await;
        }
    }

    fn answer(self, mut report: Value) -> Answer {
        report["results"] = Value::Array(self.results);
        report::of_parts(report, self.stdout, self.stderr)
    }
}

/// What a caller passes for one call.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) code: Vec<u8>,
    pub(crate) language: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) credentials: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) live: bool,
}

/// Runs code in a context of a session of this process.
pub(crate) fn run(
    py: Python<'_>,
    runtime: &Arc<Inner>,
    session: Arc<Session>,
    running: Running,
    wanted: Wanted,
    rules: Option<stockade_policy::Context>,
) -> PyResult<Call> {
    Call::start(py, runtime, wanted.live, move |mut collected, mut cancelled| async move {
        let Wanted { name, code, language, environment, credentials, timeout, .. } = wanted;
        let name = parsed(&name)?;
        let call = ContextCall { language, code, environment, credentials, timeout, rules };
        let (events, mut received) = mpsc::channel(EVENTS);
        let collect = async {
            while let Some(event) = received.recv().await {
                match event {
                    ContextEvent::Output(OutputStream::Stdout, bytes) => {
                        collected.output(1, bytes).await;
                    }
                    ContextEvent::Output(OutputStream::Stderr, bytes) => {
                        collected.output(2, bytes).await;
                    }
                    ContextEvent::Result(result) => collected.result(&result).await,
                }
            }
        };
        let called = session.run_in_context(&name, call, events, cancelled.wait(), None);
        let (result, ()) = tokio::join!(called, collect);
        // The session can end only when no call holds it.
        drop(session);
        drop(running);
        let CallReport { mut report, context } = result?;
        let provider = report.plan.take().map(|plan| plan.provider);
        let mut view = json!(CallReport { report, context });
        view["provider"] = json!(provider);
        Ok(collected.answer(view))
    })
}

/// Runs code in a context of a session of another process.
pub(crate) fn run_remote(
    py: Python<'_>,
    runtime: &Arc<Inner>,
    socket: PathBuf,
    wanted: Wanted,
) -> PyResult<Call> {
    Call::start(py, runtime, wanted.live, move |mut collected, mut cancelled| async move {
        let (mut reader, mut writer) = open(&socket)?.into_split();
        let params = RunInContextParams {
            name: wanted.name,
            language: wanted.language,
            environment: wanted.environment,
            credentials: wanted.credentials,
            timeout_ms: wanted
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        };
        let request = Request::Context(ContextParams::Run(params));
        write_frame(&mut writer, &Frame::Request(request)).await.map_err(lost)?;
        send_code(&mut writer, &wanted.code).await;
        let mut parts = ResultParts::default();
        let mut is_cancelled = false;
        let report = {
            let mut receiving = std::pin::pin!(async {
                loop {
                    match read_frame(&mut reader).await.map_err(lost)? {
                        Frame::Output(bytes) => collected.output(1, bytes).await,
                        Frame::Error(bytes) => collected.output(2, bytes).await,
                        Frame::Result(part) => {
                            if let Some(result) = parts.push(part).map_err(lost)? {
                                collected.result(&result).await;
                            }
                        }
                        Frame::Reply(Reply::Started { .. }) => {}
                        Frame::Reply(Reply::Ended { report, .. }) => return Ok(report),
                        Frame::Reply(Reply::Failed(failure)) => return Err(failed(failure)),
                        _ => return Err(unexpected()),
                    }
                }
            });
            loop {
                tokio::select! {
                    report = &mut receiving => break report?,
                    () = cancelled.wait(), if !is_cancelled => {
                        is_cancelled = true;
                        // The supervisor interrupts the call. Fails if it has ended.
                        let _ = writer.shutdown().await;
                    }
                }
            }
        };
        Ok(collected.answer(report))
    })
}

/// A request about contexts that is not a call; its result is a list of contexts as JSON. Only
/// `create` uses more of `wanted` than the name.
pub(crate) fn ask(
    runtime: &Arc<Inner>,
    session: Arc<Session>,
    act: &str,
    wanted: CreateContextParams,
) -> PyResult<Operation> {
    let act = act.to_owned();
    Ok(Operation::abortable(runtime, async move {
        let name = wanted.name.as_deref().map(parsed).transpose()?;
        let named = || name.clone().ok_or_else(|| Problem::invalid("no name", "pass a name"));
        let views = match &*act {
            "create" => {
                let request = ContextRequest {
                    name,
                    language: wanted.language,
                    working_directory: wanted.working_directory,
                    environment: wanted.environment,
                    credentials: wanted.credentials,
                };
                vec![session.create_context(request).await?]
            }
            "list" => session.contexts(),
            "interrupt" => {
                session.interrupt_context(&named()?).await?;
                Vec::new()
            }
            "restart" => vec![session.restart_context(&named()?).await?],
            _ => {
                session.remove_context(&named()?).await?;
                Vec::new()
            }
        };
        Ok(text(json!(views).to_string()))
    })?)
}

/// The same for a session of another process.
pub(crate) fn ask_remote(
    runtime: &Arc<Inner>,
    socket: PathBuf,
    act: &str,
    wanted: CreateContextParams,
) -> PyResult<Operation> {
    let name = wanted.name.clone().unwrap_or_default();
    let params = match act {
        "create" => ContextParams::Create(wanted),
        "list" => ContextParams::List,
        "interrupt" => ContextParams::Interrupt { name },
        "restart" => ContextParams::Restart { name },
        _ => ContextParams::Remove { name },
    };
    Ok(Operation::abortable(runtime, async move {
        match asked(&socket, Request::Context(params)).await? {
            Reply::Contexts(views) => Ok(text(json!(views).to_string())),
            Reply::Done => Ok(text("[]".to_owned())),
            _ => Err(unexpected()),
        }
    })?)
}

/// Forwards a port, stops forwarding it, or lists the forwarded ports, as JSON.
pub(crate) fn port(
    runtime: &Arc<Inner>,
    session: Arc<Session>,
    act: &str,
    port: u16,
    listen: Option<String>,
) -> PyResult<Operation> {
    let act = act.to_owned();
    Ok(Operation::abortable(runtime, async move {
        let ports = match &*act {
            "open" => {
                let listen = listen.as_deref().map(address).transpose()?;
                vec![session.forward_port(port, listen).await?]
            }
            "list" => session.forwarded_ports(),
            _ => {
                session.close_port(port).await?;
                return Ok(nothing());
            }
        };
        let view = |it: ForwardedPort| {
            json!({
                "port": it.port, "address": it.address.to_string(), "open": it.open,
                "connections": it.connections, "refused": it.refused,
            })
        };
        Ok(text(Value::Array(ports.into_iter().map(view).collect()).to_string()))
    })?)
}

/// The same for a session of another process.
pub(crate) fn port_remote(
    runtime: &Arc<Inner>,
    socket: PathBuf,
    act: &str,
    port: u16,
    listen: Option<String>,
) -> PyResult<Operation> {
    let params = match act {
        "open" => PortParams::Open { port, listen },
        "list" => PortParams::List,
        _ => PortParams::Close { port },
    };
    Ok(Operation::abortable(runtime, async move {
        match asked(&socket, Request::Port(params)).await? {
            Reply::Ports(views) => Ok(text(json!(views).to_string())),
            Reply::Done => Ok(nothing()),
            _ => Err(unexpected()),
        }
    })?)
}

async fn asked(socket: &Path, request: Request) -> Result<Reply, Problem> {
    let mut stream = open(socket)?;
    write_frame(&mut stream, &Frame::Request(request)).await.map_err(lost)?;
    match read_frame(&mut stream).await.map_err(lost)? {
        Frame::Reply(Reply::Failed(failure)) => Err(failed(failure)),
        Frame::Reply(reply) => Ok(reply),
        _ => Err(unexpected()),
    }
}

fn parsed(name: &str) -> Result<ContextName, Problem> {
    name.parse().map_err(|error: stockade_api::ContextNameError| {
        Problem::invalid(error.to_string(), "choose a short word")
    })
}

fn address(text: &str) -> Result<std::net::SocketAddr, Problem> {
    text.parse().map_err(|_| {
        let message = format!("{text:?} is not an address with a port");
        Problem::invalid(message, "write one of loopback, such as 127.0.0.1:8000")
    })
}

fn text(text: String) -> Answer {
    Box::new(move |py| Ok(text.into_pyobject(py)?.into_any().unbind()))
}

impl From<ContextError> for Problem {
    fn from(error: ContextError) -> Problem {
        let remedy = match &error {
            ContextError::Unknown { .. } => "list them: sandbox.contexts()",
            ContextError::TooMany { .. } => "close one, or open another sandbox",
            ContextError::Ended { .. } => "restart it, without its variables: context.restart()",
            ContextError::NotStarted { .. } => {
                "check that Python 3.9 or later runs inside, and that the sandbox has memory for it"
            }
            ContextError::Paused => "resume it first: sandbox.resume()",
            ContextError::Language { .. } => "use sandbox.run_code(code, language=...)",
            ContextError::Exists { .. } => "choose another name, or use that one",
            ContextError::NoProcesses { .. } => {
                "open Sandbox(provider=\"native\") or \"docker\", or keep values in files"
            }
            ContextError::NotText { .. } => "pass text",
            ContextError::Run(_) => "",
        };
        match error {
            ContextError::Run(error) => Problem::from(error),
            ContextError::Ended { .. } => Problem::new("context_ended", chain(&error), remedy),
            ContextError::Paused => Problem::new("busy", chain(&error), remedy),
            ContextError::NotStarted { .. } | ContextError::NoProcesses { .. } => {
                Problem::new("unavailable", chain(&error), remedy)
            }
            error => Problem::invalid(chain(&error), remedy),
        }
    }
}

impl From<PortError> for Problem {
    fn from(error: PortError) -> Problem {
        let remedy = error.remedy().unwrap_or_default().to_owned();
        match error {
            PortError::Run(error) => Problem::from(error),
            PortError::Denied { .. } => Problem::new("port_denied", chain(&error), remedy),
            error => Problem::invalid(chain(&error), remedy),
        }
    }
}
