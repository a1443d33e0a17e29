//! One program of a sandbox, as a Python object.

use std::sync::Arc;

use pyo3::prelude::*;
use stockade_engine::{ExecutionRequest, Session, StartedExecution, Streams};
use tokio::sync::{oneshot, watch};

use crate::failure::Problem;
use crate::operation::{Answer, Cancelled, Finished, Operation, nothing};
use crate::runtime::Inner;
use crate::streams::{Input, Output};
use crate::{report, session};

/// What is known about a program while it runs.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    pub(crate) started: Option<Arc<StartedExecution>>,
    has_ended: bool,
}

/// How the standard streams of a program are connected.
pub(crate) struct Connections {
    /// Its whole input; `None` with `interactive` off is an empty input.
    pub(crate) stdin: Option<Vec<u8>>,
    /// Whether Python sends input while the program runs.
    pub(crate) interactive: bool,
    /// Whether Python receives output while the program runs.
    pub(crate) live: bool,
}

/// One program of a sandbox.
#[pyclass(frozen)]
pub(crate) struct Execution {
    runtime: Arc<Inner>,
    /// Ends with the program. Its result is the report as JSON, standard output and standard error.
    #[pyo3(get)]
    operation: Py<Operation>,
    progress: watch::Receiver<Progress>,
    output: Option<Arc<Output>>,
    input: Option<Arc<Input>>,
}

impl Execution {
    /// Starts a program with `execute`.
    pub(crate) fn start<F>(
        py: Python<'_>,
        runtime: &Arc<Inner>,
        connections: Connections,
        execute: impl FnOnce(Streams, Cancelled, watch::Sender<Progress>) -> F + Send + 'static,
    ) -> PyResult<Execution>
    where
        F: Future<Output = Finished> + Send,
    {
        let mut streams = Streams { stdin: None, live: None, capture: true };
        if let Some(bytes) = connections.stdin {
            streams.stdin = Some(Box::new(std::io::Cursor::new(bytes)));
        }
        let mut input = None;
        if connections.interactive {
            let (sender, reader) = Input::new();
            streams.stdin = Some(Box::new(reader));
            input = Some(Arc::new(sender));
        }
        let (mut output, mut relay) = (None, None);
        if connections.live {
            let (receiver, live, task) = Output::new();
            streams.live = Some(live);
            (output, relay) = (Some(Arc::new(receiver)), Some(task));
        }
        let (progress, receiver) = watch::channel(Progress::default());
        let operation = Operation::start(runtime, |cancelled| async move {
            if let Some(relay) = relay {
                tokio::spawn(relay);
            }
            let result = execute(streams, cancelled, progress.clone()).await;
            progress.send_modify(|progress| progress.has_ended = true);
            result
        })?;
        let operation = Py::new(py, operation)?;
        let runtime = Arc::clone(runtime);
        Ok(Execution { runtime, operation, progress: receiver, output, input })
    }

    fn control<F>(
        &self,
        act: impl FnOnce(Arc<StartedExecution>) -> F + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = Result<(), stockade_provider::Error>> + Send,
    {
        let mut progress = self.progress.clone();
        Ok(Operation::abortable(&self.runtime, async move {
            let known = progress.wait_for(|now| now.started.is_some() || now.has_ended).await;
            let known = known.map(|known| known.clone()).unwrap_or_default();
            match known.started {
                Some(started) if !known.has_ended => act(started).await?,
                _ => {}
            }
            Ok(nothing())
        })?)
    }
}

#[pymethods]
impl Execution {
    /// Waits until the program has started. The result is its number in the sandbox, or None if it
    /// ended without a start.
    fn started(&self) -> PyResult<Operation> {
        let mut progress = self.progress.clone();
        Ok(Operation::abortable(&self.runtime, async move {
            let known = progress.wait_for(|now| now.started.is_some() || now.has_ended).await;
            let number = known.ok().and_then(|known| Some(known.started.as_ref()?.execution));
            let answer: Answer = Box::new(move |py| Ok(number.into_pyobject(py)?.unbind()));
            Ok(answer)
        })?)
    }

    /// Whether the program has ended.
    #[getter]
    fn has_ended(&self) -> bool {
        self.progress.borrow().has_ended
    }

    /// The next piece of output: its descriptor, 1 or 2, and its bytes. None at the end.
    fn next_output(&self) -> PyResult<Operation> {
        let Some(output) = self.output.clone() else {
            return Ok(Operation::finished(Ok(nothing())));
        };
        Ok(Operation::abortable(&self.runtime, async move { output.next().await })?)
    }

    /// Sends bytes to the standard input.
    fn write(&self, bytes: &[u8]) -> PyResult<Operation> {
        let (input, bytes) = (self.input()?, bytes.to_vec());
        Ok(Operation::abortable(&self.runtime, async move { input.write(bytes).await })?)
    }

    /// Ends the standard input.
    fn close_input(&self) -> PyResult<Operation> {
        let input = self.input()?;
        Ok(Operation::abortable(&self.runtime, async move { input.close().await })?)
    }

    /// Sends a signal to the program.
    fn signal(&self, signal: i32) -> PyResult<Operation> {
        self.control(move |started| async move { started.control.signal(signal).await })
    }

    /// Kills the program and its descendants.
    fn kill(&self) -> PyResult<Operation> {
        self.control(|started| async move { started.control.kill().await })
    }
}

impl Execution {
    fn input(&self) -> Result<Arc<Input>, Problem> {
        self.input.clone().ok_or_else(|| {
            let message = "the program was started without an open standard input";
            Problem::invalid(message, "start it with stdin=True")
        })
    }
}

/// Executes a program of a session of this process when it is its turn.
pub(crate) async fn execute(
    session: Arc<Session>,
    running: session::Running,
    request: ExecutionRequest,
    streams: Streams,
    mut cancelled: Cancelled,
    progress: watch::Sender<Progress>,
) -> Finished {
    let turn = tokio::select! {
        turn = running.turn() => turn?,
        () = cancelled.wait() => return Err(Problem::cancelled()),
    };
    let (sender, started) = oneshot::channel();
    let follow = async {
        // Fails if the program never started.
        if let Ok(started) = started.await {
            progress.send_modify(|progress| progress.started = Some(Arc::new(started)));
        }
    };
    let executed = session.execute_with(request, streams, cancelled.wait(), Some(sender));
    let (result, ()) = tokio::join!(executed, follow);
    drop(turn);
    // The session can end only when no execution holds it.
    drop(session);
    drop(running);
    report::answer(result?)
}
