//! Sessions that another process holds, such as those of `stockade create`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::json;
use stockade_api::{
    CreateContextParams, ExecuteParams, Failure, Frame, ProgramParams, Reply, Request,
    RestoreParams, read_frame, write_frame,
};
use stockade_provider::chain;
use stockade_supervisor::{RemoteFiles, SessionName, State, StateError, connect, state_directory};
use tokio::net::UnixStream;

use crate::contexts::{self, Call, Wanted};
use crate::conversation::{self, Code};
use crate::execution::{Connections, Execution};
use crate::failure::Problem;
use crate::files::Files;
use crate::operation::{Answer, Finished, Operation, nothing};
use crate::runtime::{Inner, Runtime};
use crate::session::{milliseconds, seconds};
use crate::state;

/// The sessions of this user, as JSON.
#[pyfunction]
pub(crate) fn sessions(py: Python<'_>) -> PyResult<String> {
    let listed = py.detach(|| state()?.list().map_err(|error| refused(&error)))?;
    let views = listed.iter().map(|session| {
        json!({
            "name": session.name,
            "supervisor": session.supervisor,
            "created": session.created,
        })
    });
    Ok(json!(views.collect::<Vec<_>>()).to_string())
}

/// A session that another process holds.
#[pyclass(frozen)]
pub(crate) struct Remote {
    runtime: Arc<Inner>,
    socket: PathBuf,
}

#[pymethods]
impl Remote {
    /// Finds a session by its name.
    #[new]
    fn new(py: Python<'_>, runtime: &Runtime, name: &str) -> PyResult<Remote> {
        let socket = py.detach(|| {
            let name = SessionName::parse(name).map_err(|error| refused(&error))?;
            state()?.socket(&name).map_err(|error| refused(&error))
        })?;
        Ok(Remote { runtime: Arc::clone(&runtime.inner), socket })
    }

    /// Starts a program: code in a language, or a command.
    #[pyo3(signature = (argv, *, language, code, name, envs, credentials, cwd, timeout, stdin, interactive, live))]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn execute(
        &self,
        py: Python<'_>,
        argv: Vec<String>,
        language: Option<String>,
        code: Option<&[u8]>,
        name: String,
        envs: Vec<(String, String)>,
        credentials: Vec<String>,
        cwd: Option<String>,
        timeout: Option<f64>,
        stdin: Option<&[u8]>,
        interactive: bool,
        live: bool,
    ) -> PyResult<Execution> {
        let (program, code): (ProgramParams, Code) = match (language, code) {
            (Some(language), Some(code)) => {
                let program = ProgramParams::Code { language, name, arguments: argv };
                (program, Some(code.to_vec()))
            }
            _ => (ProgramParams::Command { argv }, None),
        };
        let params = ExecuteParams {
            program,
            environment: envs,
            credentials,
            working_directory: cwd,
            timeout_ms: timeout.map(milliseconds).transpose()?,
            terminal: None,
            detach: false,
            input: interactive || stdin.is_some(),
        };
        let connections = Connections { stdin: stdin.map(<[u8]>::to_vec), interactive, live };
        let socket = self.socket.clone();
        Execution::start(
            py,
            &self.runtime,
            connections,
            |streams, cancelled, progress| async move {
                conversation::execute(&socket, params, code, streams, cancelled, &progress).await
            },
        )
    }

    /// Runs code in a context, which is started if it is missing.
    #[pyo3(signature = (name, code, *, language, envs, credentials, timeout, live))]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn run_in_context(
        &self,
        py: Python<'_>,
        name: String,
        code: &[u8],
        language: String,
        envs: Vec<(String, String)>,
        credentials: Vec<String>,
        timeout: Option<f64>,
        live: bool,
    ) -> PyResult<Call> {
        let timeout = timeout.map(seconds).transpose()?;
        let code = code.to_vec();
        let wanted = Wanted { name, code, language, environment: envs, credentials, timeout, live };
        contexts::run_remote(py, &self.runtime, self.socket.clone(), wanted)
    }

    /// Creates, lists, interrupts, restarts or removes contexts. The result is a list as JSON.
    #[pyo3(signature = (act, name, *, language, cwd, envs, credentials))]
    fn contexts(
        &self,
        act: &str,
        name: Option<String>,
        language: String,
        cwd: Option<String>,
        envs: Vec<(String, String)>,
        credentials: Vec<String>,
    ) -> PyResult<Operation> {
        let (working_directory, environment) = (cwd, envs);
        let wanted =
            CreateContextParams { name, language, working_directory, environment, credentials };
        contexts::ask_remote(&self.runtime, self.socket.clone(), act, wanted)
    }

    /// Opens, lists or closes forwarded ports. The result is a list as JSON.
    fn port(&self, act: &str, port: u16, listen: Option<String>) -> PyResult<Operation> {
        contexts::port_remote(&self.runtime, self.socket.clone(), act, port, listen)
    }

    /// The session, as JSON.
    fn inspect(&self) -> PyResult<Operation> {
        self.ask(Request::Inspect, |reply| match reply {
            Reply::Session(view) => Some(text(json!(view).to_string())),
            _ => None,
        })
    }

    /// What the sandbox used so far, as for a Session.
    fn usage(&self) -> PyResult<Operation> {
        self.ask(Request::Stats, |reply| {
            let Reply::Stats(used) = reply else { return None };
            let view = (used.cpu_ms, used.memory_peak_bytes, used.tasks_peak, used.oom_kills);
            let answer: Answer =
                Box::new(move |py| Ok(view.into_pyobject(py)?.into_any().unbind()));
            Some(answer)
        })
    }

    /// The files inside.
    fn files(&self) -> Files {
        Files::elsewhere(Arc::clone(&self.runtime), RemoteFiles::new(&self.socket))
    }

    /// Stops all programs until resume.
    fn pause(&self) -> PyResult<Operation> {
        self.ask(Request::Pause, done)
    }

    /// Continues all programs.
    fn resume(&self) -> PyResult<Operation> {
        self.ask(Request::Resume, done)
    }

    /// Keeps the files under a name. The result describes the checkpoint, as JSON.
    fn checkpoint(&self, name: String) -> PyResult<Operation> {
        let request = Request::Checkpoint { name, store: state::params()? };
        // Not aborted: the caller removes a checkpoint that goes with a call.
        self.keep(request, |reply| match reply {
            Reply::Checkpoint(view) => Some(text(json!(view).to_string())),
            _ => None,
        })
    }

    /// Replaces the files by those of a checkpoint; without one, discards every change.
    fn restore(&self, reference: Option<String>, any_policy: bool) -> PyResult<Operation> {
        let (store, checkpoint) = (state::params()?, reference);
        let params = RestoreParams { store, checkpoint, force: false, any_policy };
        self.keep(Request::Restore(params), |reply| match reply {
            Reply::Checkpoint(_) | Reply::Done => Some(nothing()),
            _ => None,
        })
    }

    /// Ends the session.
    fn remove(&self) -> PyResult<Operation> {
        self.ask(Request::Remove { force: true }, done)
    }
}

impl Remote {
    fn ask(&self, request: Request, read: fn(Reply) -> Option<Answer>) -> PyResult<Operation> {
        let asked = asked(self.socket.clone(), request, read, failed);
        Ok(Operation::abortable(&self.runtime, asked)?)
    }

    /// Asks for something that goes on when the caller leaves.
    fn keep(&self, request: Request, read: fn(Reply) -> Option<Answer>) -> PyResult<Operation> {
        let failed = |failure: Failure| Problem::new("state", failure.message, failure.remedy);
        let asked = asked(self.socket.clone(), request, read, failed);
        Ok(Operation::start(&self.runtime, |_| asked)?)
    }
}

async fn asked(
    socket: PathBuf,
    request: Request,
    read: fn(Reply) -> Option<Answer>,
    failed: fn(Failure) -> Problem,
) -> Finished {
    let mut stream = open(&socket)?;
    write_frame(&mut stream, &Frame::Request(request)).await.map_err(lost)?;
    match read_frame(&mut stream).await.map_err(lost)? {
        Frame::Reply(Reply::Failed(failure)) => Err(failed(failure)),
        Frame::Reply(reply) => read(reply).ok_or_else(unexpected),
        _ => Err(unexpected()),
    }
}

fn done(reply: Reply) -> Option<Answer> {
    matches!(reply, Reply::Done).then(nothing)
}

fn text(text: String) -> Answer {
    Box::new(move |py| Ok(text.into_pyobject(py)?.into_any().unbind()))
}

/// Connects to the supervisor of a session.
pub(crate) fn open(socket: &std::path::Path) -> Result<UnixStream, Problem> {
    connect(socket).map_err(|error| {
        Problem::new("lost", chain(&error), "see which sessions exist: Sandbox.list()")
    })
}

pub(crate) fn lost(error: stockade_api::FrameError) -> Problem {
    let message = format!("the session ended before it answered: {}", chain(&error));
    Problem::new("lost", message, "see which sessions exist: Sandbox.list()")
}

pub(crate) fn failed(failure: Failure) -> Problem {
    Problem::invalid(failure.message, failure.remedy)
}

pub(crate) fn unexpected() -> Problem {
    let message = "the supervisor of the session sent something unexpected";
    Problem::new("internal", message, "use one version of Stockade for both")
}

fn state() -> Result<State, Problem> {
    let directory = state_directory(|name| std::env::var_os(name));
    State::open(&directory).map_err(|error| refused(&error))
}

fn refused(error: &StateError) -> Problem {
    Problem::invalid(chain(error), error.remedy())
}
