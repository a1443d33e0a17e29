//! The runtime that all sandboxes of a process share.
//!
//! ```text
//! open ── close, at the exit of the interpreter ──▶ closed: nothing runs, nothing starts
//!   └── fork ──▶ in the child: unusable, and never dropped, because its threads do not exist there
//! ```

use std::mem;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::failure::Problem;
use crate::operation::Shared;

/// How long the sandboxes may take to end when the interpreter exits.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// The version of Stockade.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Logs a line about work that takes long, which Python shows on standard error unless the program
/// configures its logger `stockade`. Runs on blocking threads.
pub(crate) fn log_progress(text: &str) {
    // Attaching fails only when the interpreter exits.
    let _ = Python::try_attach(|py| {
        let logger =
            py.import("logging").and_then(|it| it.call_method1("getLogger", ("stockade",)));
        if let Err(error) = logger.and_then(|logger| logger.call_method1("warning", (text,))) {
            error.write_unraisable(py, None);
        }
    });
}

/// Whether this process made something, rather than a process from which it was forked.
pub(crate) fn is_this_process(process: u32) -> bool {
    process == std::process::id()
}

/// Calls the callbacks of finished operations, on a thread of its own: no thread of the runtime
/// waits for the GIL.
#[derive(Clone)]
pub(crate) struct Notifier(Sender<Message>);

/// What the thread of callbacks receives.
enum Message {
    Ended(Arc<Shared>),
    /// Ends the thread, and answers.
    Close(Sender<()>),
}

impl Notifier {
    fn start() -> std::io::Result<Notifier> {
        let (sender, receiver) = channel::<Message>();
        thread::Builder::new().name("stockade-notify".to_owned()).spawn(move || {
            for message in receiver {
                let ended = match message {
                    Message::Ended(ended) => ended,
                    Message::Close(closed) => {
                        // The caller may no longer wait.
                        let _ = closed.send(());
                        return;
                    }
                };
                let Some(callback) = ended.take_callback() else { continue };
                // Attaching fails only when the interpreter exits; then no task waits.
                let _ = Python::try_attach(|py| {
                    if let Err(error) = callback.call0(py) {
                        error.write_unraisable(py, None);
                    }
                });
            }
        })?;
        Ok(Notifier(sender))
    }

    pub(crate) fn notify(&self, ended: Arc<Shared>) {
        // Fails after the interpreter has begun to exit; then no task waits.
        let _ = self.0.send(Message::Ended(ended));
    }

    /// Waits for the callback that runs now, and ends the thread: an interpreter that exits while
    /// another thread runs Python code can abort.
    fn close(&self) {
        let (closed, answer) = channel();
        if self.0.send(Message::Close(closed)).is_ok() {
            let _ = answer.recv_timeout(LAST_WAIT);
        }
    }
}

/// The shared runtime, as sandboxes hold it.
pub(crate) struct Inner {
    process: u32,
    runtime: Mutex<Option<tokio::runtime::Runtime>>,
    notifier: Notifier,
    /// How many sessions are open.
    sessions: watch::Sender<usize>,
}

impl Inner {
    fn new() -> std::io::Result<Inner> {
        let runtime = Builder::new_multi_thread().thread_name("stockade").enable_all().build()?;
        Ok(Inner {
            process: std::process::id(),
            runtime: Mutex::new(Some(runtime)),
            notifier: Notifier::start()?,
            sessions: watch::Sender::new(0),
        })
    }

    fn runtime(&self) -> MutexGuard<'_, Option<tokio::runtime::Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Problem> {
        if !is_this_process(self.process) {
            return Err(Problem::forked());
        }
        match &*self.runtime() {
            Some(runtime) => {
                runtime.spawn(task);
                Ok(())
            }
            None => Err(Problem::new("closed", "the interpreter is exiting", "do it earlier")),
        }
    }

    pub(crate) fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Counts an open session until the guard is dropped.
    pub(crate) fn count_session(self: &Arc<Inner>) -> SessionCount {
        self.sessions.send_modify(|sessions| *sessions += 1);
        SessionCount(Arc::clone(self))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime().take() else { return };
        match is_this_process(self.process) {
            true => runtime.shutdown_background(),
            // The threads that a shutdown waits for exist only in the parent process.
            false => mem::forget(runtime),
        }
    }
}

/// One open session.
pub(crate) struct SessionCount(Arc<Inner>);

impl Drop for SessionCount {
    fn drop(&mut self) {
        self.0.sessions.send_modify(|sessions| *sessions = sessions.saturating_sub(1));
    }
}

/// The runtime that all sandboxes of a process share.
#[pyclass(frozen)]
pub(crate) struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

#[pymethods]
impl Runtime {
    #[new]
    fn new() -> PyResult<Runtime> {
        let inner = Inner::new().map_err(|error| {
            let message = format!("cannot start the threads of Stockade: {error}");
            Problem::new("unavailable", message, "check `ulimit -n` and `ulimit -u`")
        })?;
        Ok(Runtime { inner: Arc::new(inner) })
    }

    /// How many sandboxes are open.
    #[getter]
    fn sessions(&self) -> usize {
        *self.inner.sessions.borrow()
    }

    /// Waits until no sandbox is open, for at most ten seconds, and ends all threads.
    fn close(&self, py: Python<'_>) {
        if !is_this_process(self.inner.process) {
            return;
        }
        let Some(runtime) = self.inner.runtime().take() else { return };
        py.detach(|| {
            let mut sessions = self.inner.sessions.subscribe();
            runtime.block_on(async {
                let _ = tokio::time::timeout(LAST_WAIT, sessions.wait_for(|open| *open == 0)).await;
            });
            runtime.shutdown_background();
            self.inner.notifier.close();
        });
    }
}
