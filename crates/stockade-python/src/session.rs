//! An open sandbox, as a Python object.
//!
//! ```text
//! open ── end, or the object is freed ──▶ killed ── no execution is left ──▶ ended
//! ```

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use stockade_api::CreateContextParams;
use stockade_backends::{ContainerChoice, HostProcess, RUNTIMES, Surroundings};
use stockade_engine::{Engine, ExecutionRequest, Kept, OtherPolicy, Passage, SessionRequest};
use stockade_policy::Moment;
use stockade_provider::{EntryProgram, ImageRoot, Language, Program, Root};
use stockade_record::Recorder;
use stockade_store::Reference;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::azure::AzureOptions;
use crate::contexts::{self, Call, Wanted};
use crate::execution::{self, Connections, Execution};
use crate::failure::Problem;
use crate::files::Files;
use crate::operation::{Answer, Finished, Operation, nothing};
use crate::policy::{self, Policy};
use crate::record;
use crate::runtime::{Inner, Runtime, SessionCount, is_this_process};
use crate::state;
use crate::tools::{self, Offered};

/// How long executions may take to end after everything inside was killed.
const LAST_EXECUTIONS: Duration = Duration::from_secs(5);

/// How many programs of a sandbox run at once; further ones wait for their turn.
const AT_ONCE: usize = 64;

/// Counts one execution until it is dropped.
pub(crate) struct Running {
    count: Arc<watch::Sender<usize>>,
    turns: Arc<Semaphore>,
}

impl Running {
    /// Waits until fewer programs run than may run at once. Dropping the result ends the turn.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Problem::closed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.count.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// What an open session holds.
struct Held {
    session: Arc<stockade_engine::Session>,
    running: Arc<watch::Sender<usize>>,
    turns: Arc<Semaphore>,
    _count: SessionCount,
}

impl Held {
    /// Kills everything inside and waits until nothing is left.
    async fn end(self, reason: &'static str) -> Finished {
        // A program that waits for its turn does not start any more.
        self.turns.close();
        self.session.kill().await;
        let mut running = self.running.subscribe();
        let _ = tokio::time::timeout(LAST_EXECUTIONS, running.wait_for(|now| *now == 0)).await;
        match Arc::try_unwrap(self.session) {
            Ok(session) => session.end(reason).await?,
            // An execution still holds it; dropping the last reference ends the sandbox too.
            Err(session) => drop(session),
        }
        Ok(nothing())
    }
}

/// An open sandbox.
#[pyclass(frozen)]
pub(crate) struct Session {
    process: u32,
    runtime: Arc<Inner>,
    recorder: Option<Arc<Recorder>>,
    held: Mutex<Option<Held>>,
}

impl Session {
    fn take(&self) -> Option<Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The session, if it is open and belongs to this process.
    pub(crate) fn session(&self) -> Result<Arc<stockade_engine::Session>, Problem> {
        if !is_this_process(self.process) {
            return Err(Problem::forked());
        }
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|held| Arc::clone(&held.session)).ok_or_else(Problem::closed)
    }

    /// The runtime of the process.
    pub(crate) fn runtime(&self) -> Arc<Inner> {
        Arc::clone(&self.runtime)
    }

    fn count(&self) -> Result<Running, Problem> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_ref().ok_or_else(Problem::closed)?;
        held.running.send_modify(|running| *running += 1);
        Ok(Running { count: Arc::clone(&held.running), turns: Arc::clone(&held.turns) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(held) = self.take() else { return };
        if !is_this_process(self.process) {
            // The sandbox is the parent's.
            mem::forget(held);
            return;
        }
        let end = async move {
            // The record has the failure; no caller is left to receive it.
            let _ = held.end("closed").await;
        };
        // Fails when the interpreter exits: dropping the session then kills everything inside.
        let _ = self.runtime.spawn(end);
    }
}

#[pymethods]
impl Session {
    /// Opens a sandbox. The result is a Session.
    #[staticmethod]
    #[pyo3(signature = (runtime, policy, *, provider, root, image, container, azure, envs, credentials, tools, record, python, protected, context))]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn open(
        runtime: &Runtime,
        policy: &Policy,
        provider: Option<String>,
        root: Option<PathBuf>,
        image: Option<String>,
        container: (Option<String>, Option<String>),
        azure: Option<AzureOptions>,
        envs: Vec<(String, String)>,
        credentials: Vec<String>,
        tools: Vec<Offered>,
        record: Option<record::Wanted>,
        python: Option<PathBuf>,
        protected: Vec<PathBuf>,
        context: &str,
    ) -> PyResult<Operation> {
        // The managed wall is offered only if the caller names it.
        let is_managed = provider.as_deref() == Some("aca");
        let root = match (root, image) {
            (Some(directory), _) => Root::Directory(directory),
            (None, Some(image)) => Root::Image(ImageRoot::named(image)),
            (None, None) => Root::Standard,
        };
        let mut checked = (*policy.policy).clone();
        let recorder = record.map(|place| record::recorder(place, &mut checked, &root));
        let recorder = recorder.transpose()?;
        let context = policy::context(context)?;
        let profiles = checked.seccomp.iter().map(|profile| profile.value.clone());
        let request = SessionRequest {
            protected: protected.into_iter().chain(profiles).collect(),
            policy: Arc::new(checked),
            provider,
            root,
            user: rustix::process::getuid().as_raw(),
            environment: envs,
            credentials,
            passage: Passage::Allowed,
            tools: tools::tools(tools)?,
            context,
            recorder: recorder.clone(),
        };
        let surroundings = surroundings(python)?;
        let user = HostProcess::Continues;
        let azure = azure.map(AzureOptions::choice);
        let azure = is_managed.then(|| azure.unwrap_or_default());
        let containers = ContainerChoice { azure, ..container_choice(container)? };
        let engine = Engine::new(stockade_backends::providers(user, &surroundings, &containers));
        let shared = Arc::clone(&runtime.inner);
        Ok(Operation::start(&runtime.inner, |mut cancelled| async move {
            let entry = EntryProgram::Interpreter(Language::Python);
            let Some(session) = engine.open(request, entry, cancelled.wait()).await? else {
                return Err(Problem::cancelled());
            };
            let held = Held {
                session: Arc::new(session),
                running: Arc::new(watch::Sender::new(0)),
                turns: Arc::new(Semaphore::new(AT_ONCE)),
                _count: shared.count_session(),
            };
            let session = Session {
                process: std::process::id(),
                runtime: shared,
                recorder,
                held: Mutex::new(Some(held)),
            };
            let answer: Answer = Box::new(|py| Ok(Py::new(py, session)?.into_any()));
            Ok(answer)
        })?)
    }

    /// Starts a program: code in a language, or a command.
    #[pyo3(signature = (argv, *, language, code, name, envs, credentials, cwd, timeout, stdin, interactive, live, context=None))]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn execute(
        &self,
        py: Python<'_>,
        argv: Vec<String>,
        language: Option<&str>,
        code: Option<&[u8]>,
        name: String,
        envs: Vec<(String, String)>,
        credentials: Vec<String>,
        cwd: Option<String>,
        timeout: Option<f64>,
        stdin: Option<&[u8]>,
        interactive: bool,
        live: bool,
        context: Option<&str>,
    ) -> PyResult<Execution> {
        let program = match (language, code) {
            (Some(language), Some(code)) => Program::Code {
                language: language.parse().map_err(
                    |error: stockade_provider::UnknownLanguage| {
                        Problem::invalid(error.to_string(), "pass one of those")
                    },
                )?,
                name,
                code: code.to_vec(),
                arguments: argv,
            },
            _ => Program::Command { argv },
        };
        let mut request = ExecutionRequest::new(program);
        request.environment = envs;
        request.credentials = credentials;
        request.working_directory = cwd;
        request.timeout = timeout.map(seconds).transpose()?;
        let connections = Connections { stdin: stdin.map(<[u8]>::to_vec), interactive, live };
        let (session, running) = (self.session()?, self.count()?);
        let own = session.context().clone();
        request.context = Some(policy::extended(own, context.unwrap_or("{}"))?);
        Execution::start(py, &self.runtime, connections, |streams, cancelled, progress| {
            execution::execute(session, running, request, streams, cancelled, progress)
        })
    }

    /// Runs code in a context, which is started if it is missing.
    #[pyo3(signature = (name, code, *, language, envs, credentials, timeout, live, context=None))]
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
        context: Option<&str>,
    ) -> PyResult<Call> {
        let timeout = timeout.map(seconds).transpose()?;
        let (session, running) = (self.session()?, self.count()?);
        let own = session.context().clone();
        let rules = Some(policy::extended(own, context.unwrap_or("{}"))?);
        let code = code.to_vec();
        let wanted = Wanted { name, code, language, environment: envs, credentials, timeout, live };
        contexts::run(py, &self.runtime, session, running, wanted, rules)
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
        contexts::ask(&self.runtime, self.session()?, act, wanted)
    }

    /// Opens, lists or closes forwarded ports. The result is a list as JSON.
    fn port(&self, act: &str, port: u16, listen: Option<String>) -> PyResult<Operation> {
        contexts::port(&self.runtime, self.session()?, act, port, listen)
    }

    /// The files inside.
    fn files(slf: Py<Session>) -> Files {
        Files::new(slf)
    }

    /// The wall with every control that it enforces, as JSON.
    fn plan(&self) -> PyResult<String> {
        Ok(serde_json::to_string(self.session()?.plan()).unwrap_or_default())
    }

    /// The id of the session and the file of its record, if one is kept.
    fn identity(&self) -> (Option<String>, Option<PathBuf>) {
        match &self.recorder {
            Some(recorder) => (Some(recorder.session().as_str().to_owned()), recorder.path()),
            None => (None, None),
        }
    }

    /// What the sandbox used so far: processor milliseconds, bytes of memory at its peak, tasks at
    /// their peak, and kills for want of memory.
    fn usage(&self) -> PyResult<Operation> {
        let session = self.session()?;
        Ok(Operation::abortable(&self.runtime, async move {
            let used = session.usage().await;
            let cpu = used.cpu_time.and_then(|time| u64::try_from(time.as_millis()).ok());
            let view = (cpu, used.memory_peak_bytes, used.tasks_peak, used.oom_kills);
            let answer: Answer =
                Box::new(move |py| Ok(view.into_pyobject(py)?.into_any().unbind()));
            Ok(answer)
        })?)
    }

    /// Stops all programs until resume.
    fn pause(&self) -> PyResult<Operation> {
        let session = self.session()?;
        Ok(Operation::abortable(&self.runtime, async move {
            session.pause().await?;
            Ok(nothing())
        })?)
    }

    /// Continues all programs.
    fn resume(&self) -> PyResult<Operation> {
        let session = self.session()?;
        Ok(Operation::abortable(&self.runtime, async move {
            session.resume().await?;
            Ok(nothing())
        })?)
    }

    /// Keeps the files under `SESSION/NAME`. The result describes the checkpoint, as JSON.
    fn checkpoint(&self, reference: &str) -> PyResult<Operation> {
        let (session, store) = (self.session()?, state::store()?);
        let reference: Reference = reference.parse().map_err(|error| state::failed(&error))?;
        // It is not aborted: programs must be resumed.
        Ok(Operation::start(&self.runtime, |_| async move {
            let (ancestors, origin) = (Vec::new(), serde_json::Value::Null);
            let kept = Kept { reference, ancestors, origin };
            let checkpoint = session.checkpoint(&store, kept).await?;
            let view = state::view(&checkpoint);
            let answer: Answer =
                Box::new(move |py| Ok(view.into_pyobject(py)?.into_any().unbind()));
            Ok(answer)
        })?)
    }

    /// Replaces the files by those of a checkpoint; without one, discards every change.
    fn restore(&self, reference: Option<&str>, any_policy: bool) -> PyResult<Operation> {
        let (session, store) = (self.session()?, state::store()?);
        let checkpoint = reference.map(|it| state::checkpoint(&store, it)).transpose()?;
        let other = if any_policy { OtherPolicy::Accept } else { OtherPolicy::Refuse };
        Ok(Operation::start(&self.runtime, |_| async move {
            match checkpoint {
                Some(checkpoint) => session.restore(&store, &checkpoint, other).await?,
                None => session.discard().await?,
            }
            Ok(nothing())
        })?)
    }

    /// Writes the files of a checkpoint into a sandbox in which nothing ran yet.
    fn fill(&self, reference: &str) -> PyResult<Operation> {
        let (session, store) = (self.session()?, state::store()?);
        let checkpoint = state::checkpoint(&store, reference)?;
        Ok(Operation::start(&self.runtime, |_| async move {
            session.fill(&store, &checkpoint).await?;
            Ok(nothing())
        })?)
    }

    /// Ends everything inside. Does nothing if the sandbox has ended.
    fn end(&self) -> PyResult<Operation> {
        if !is_this_process(self.process) {
            return Ok(Operation::finished(Ok(nothing())));
        }
        let Some(held) = self.take() else { return Ok(Operation::finished(Ok(nothing()))) };
        Ok(Operation::start(&self.runtime, |_| held.end("closed"))?)
    }
}

/// What determines the interpreter behind `python3` and other names.
fn surroundings(python: Option<PathBuf>) -> Result<Surroundings, Problem> {
    let here = std::env::current_dir().map_err(|error| {
        let message = format!("cannot find the working directory: {error}");
        Problem::invalid(message, "change to a directory that exists")
    })?;
    let user = rustix::process::getuid().as_raw();
    let explicit_python = python.map(|path| here.join(path));
    let found = Surroundings::from_variables(|name| std::env::var_os(name), here, user);
    Ok(Surroundings { explicit_python, ..found })
}

/// The container engine and runtime: the engine's address, and the name of the runtime.
pub(crate) fn container_choice(
    (url, runtime): (Option<String>, Option<String>),
) -> Result<ContainerChoice, Problem> {
    let is_known = |name: &String| RUNTIMES.contains(&name.as_str());
    if let Some(name) = runtime.as_ref().filter(|name| !is_known(name)) {
        let message = format!("no runtime is called {name:?}");
        return Err(Problem::invalid(message, format!("pass one of: {}", RUNTIMES.join(", "))));
    }
    Ok(ContainerChoice { url, runtime, azure: None })
}

/// The time at which rules with a time are evaluated.
pub(crate) fn now() -> Result<Moment, Problem> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = since.ok().and_then(|since| i64::try_from(since.as_secs()).ok());
    let unix_seconds =
        seconds.ok_or_else(|| Problem::invalid("the clock is before 1970", "set the clock"))?;
    Ok(Moment { unix_seconds })
}

/// A timeout of Python in milliseconds.
pub(crate) fn milliseconds(timeout: f64) -> Result<u64, Problem> {
    Ok(u64::try_from(seconds(timeout)?.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) fn seconds(timeout: f64) -> Result<Duration, Problem> {
    Duration::try_from_secs_f64(timeout).map_err(|_| {
        let message = format!("the timeout {timeout} is not a number of seconds");
        Problem::invalid(message, "pass a positive number")
    })
}
