//! One operation of the runtime, as a Python object.
//!
//! ```text
//! running ── finished ──▶ done ── result taken ──▶ taken
//!    └── cancel: the task ends early, its result is a failure or what it had ──▶ done
//! ```

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tokio::sync::watch;

use crate::failure::Problem;
use crate::runtime::{Inner, is_this_process};

/// How often a waiting thread checks for signals such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// How long an interrupted call waits until its operation has ended.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Makes the Python value of a finished operation.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The result of an operation before it is a Python value.
pub(crate) type Finished = Result<Answer, Problem>;

/// An answer without a value.
pub(crate) fn nothing() -> Answer {
    Box::new(|py| Ok(py.None()))
}

/// Resolves when the caller cancels the operation.
pub(crate) struct Cancelled(watch::Receiver<bool>);

impl Cancelled {
    /// Waits for the cancellation; never resolves if the operation can no longer be cancelled.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(|is_cancelled| *is_cancelled).await.is_err() {
            std::future::pending().await
        }
    }
}

/// What a task of the runtime and its Python object share.
pub(crate) struct Shared {
    process: u32,
    state: Mutex<State>,
    done: Condvar,
    cancel: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    is_done: bool,
    result: Option<Finished>,
    callback: Option<Py<PyAny>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end; false if it did not come in time.
    fn wait(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut state = self.state();
        while !state.is_done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(crate) fn take_callback(&self) -> Option<Py<PyAny>> {
        self.state().callback.take()
    }
}

/// One operation. The shared runtime carries it out.
#[pyclass(frozen)]
pub(crate) struct Operation {
    shared: Arc<Shared>,
}

impl Operation {
    /// Starts an operation that ends by itself after it is cancelled.
    pub(crate) fn start<F>(
        runtime: &Arc<Inner>,
        work: impl FnOnce(Cancelled) -> F,
    ) -> Result<Operation, Problem>
    where
        F: Future<Output = Finished> + Send + 'static,
    {
        let (cancel, cancelled) = watch::channel(false);
        let shared = Arc::new(Shared {
            process: std::process::id(),
            state: Mutex::default(),
            done: Condvar::new(),
            cancel,
        });
        let work = work(Cancelled(cancelled));
        let (ended, notifier) = (Arc::clone(&shared), runtime.notifier());
        runtime.spawn(async move {
            let result = work.await;
            let mut state = ended.state();
            (state.is_done, state.result) = (true, Some(result));
            let has_callback = state.callback.is_some();
            drop(state);
            ended.done.notify_all();
            if has_callback {
                notifier.notify(ended);
            }
        })?;
        Ok(Operation { shared })
    }

    /// Starts an operation that a cancellation ends at once.
    pub(crate) fn abortable<F>(runtime: &Arc<Inner>, work: F) -> Result<Operation, Problem>
    where
        F: Future<Output = Finished> + Send + 'static,
    {
        Operation::start(runtime, |mut cancelled| async move {
            tokio::select! {
                result = work => result,
                () = cancelled.wait() => Err(Problem::cancelled()),
            }
        })
    }

    /// An operation that has ended already.
    pub(crate) fn finished(result: Finished) -> Operation {
        let state = State { is_done: true, result: Some(result), callback: None };
        let shared = Shared {
            process: std::process::id(),
            state: Mutex::new(state),
            done: Condvar::new(),
            cancel: watch::Sender::new(false),
        };
        Operation { shared: Arc::new(shared) }
    }
}

#[pymethods]
impl Operation {
    /// Waits for the end without the GIL and returns the result. An exception of a signal handler,
    /// such as KeyboardInterrupt, cancels the operation.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if !is_this_process(self.shared.process) {
            return Err(Problem::forked().into());
        }
        while !py.detach(|| self.shared.wait(SIGNALS)) {
            if let Err(interrupt) = py.check_signals() {
                self.cancel();
                py.detach(|| self.shared.wait(LAST_WAIT));
                return Err(interrupt);
            }
        }
        self.result(py)
    }

    /// The result of an operation that has ended; it can be taken once.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let result = self.shared.state().result.take();
        match result {
            Some(Ok(answer)) => answer(py),
            Some(Err(problem)) => Err(problem.into()),
            None => {
                let message = "the result was taken already, or does not exist yet";
                Err(Problem::new("internal", message, "call result once, at the end").into())
            }
        }
    }

    /// Ends the operation early.
    fn cancel(&self) {
        self.shared.cancel.send_replace(true);
    }

    /// Calls a function without arguments once, on another thread, when the operation has ended.
    /// Returns false, without a call, if it has ended already.
    fn call_when_done(&self, callback: Py<PyAny>) -> bool {
        let mut state = self.shared.state();
        if state.is_done {
            return false;
        }
        state.callback = Some(callback);
        true
    }
}
