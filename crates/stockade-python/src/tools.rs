//! Python functions as tools.

use std::sync::{Arc, Mutex, PoisonError};

use futures_core::future::BoxFuture;
use pyo3::prelude::*;
use serde_json::Value;
use stockade_engine::{Tool, ToolFailure, Tools};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::failure::Problem;

/// A tool: its name, its description, the JSON schemas of its arguments and its result, and a
/// function that takes the arguments as JSON and a `ToolCall`.
#[derive(FromPyObject)]
pub(crate) struct Offered(String, String, String, Option<String>, Py<PyAny>);

/// The tools for the engine.
pub(crate) fn tools(offered: Vec<Offered>) -> Result<Tools, Problem> {
    let mut tools = Tools::new();
    for Offered(name, description, input, output, function) in offered {
        let output = output.map(|output| schema(&name, &output)).transpose()?;
        let function = Arc::new(function);
        let run = move |arguments: Value| call(Arc::clone(&function), &arguments);
        let tool = Tool::from_schema(&name, &description, schema(&name, &input)?, output, run)?;
        tools.add(tool)?;
    }
    Ok(tools)
}

fn schema(name: &str, text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("a schema of the tool `{name}` is not JSON: {error}");
        Problem::invalid(message, "pass a JSON schema")
    })
}

type Reply = Result<String, String>;

/// What a call shares with its Python object.
#[derive(Default)]
struct Shared {
    reply: Option<oneshot::Sender<Reply>>,
    is_cancelled: bool,
    on_cancel: Option<Py<PyAny>>,
}

/// One call of a tool, which its function answers.
#[pyclass(frozen)]
pub(crate) struct ToolCall {
    shared: Arc<Mutex<Shared>>,
}

#[pymethods]
impl ToolCall {
    /// Answers with a result as JSON.
    fn succeed(&self, result: String) {
        self.answer(Ok(result));
    }

    /// Answers with an error.
    fn fail(&self, message: String) {
        self.answer(Err(message));
    }

    /// Calls a function without arguments, on another thread, if the call is cancelled before it is
    /// answered. Returns false if it is cancelled already.
    fn when_cancelled(&self, function: Py<PyAny>) -> bool {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.on_cancel = Some(function);
        !shared.is_cancelled
    }
}

impl ToolCall {
    fn answer(&self, reply: Reply) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.on_cancel = None;
        if let Some(sender) = shared.reply.take() {
            // The call may be cancelled.
            let _ = sender.send(reply);
        }
    }
}

/// Cancels a call when it is dropped before its answer.
struct CancelOnDrop(Arc<Mutex<Shared>>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.is_cancelled = true;
        let (Some(function), Ok(runtime)) = (shared.on_cancel.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn_blocking(move || {
            Python::try_attach(|py| {
                if let Err(error) = function.call0(py) {
                    error.write_unraisable(py, None);
                }
            })
        });
    }
}

/// Calls a Python function on a blocking thread and waits for its answer.
fn call(
    function: Arc<Py<PyAny>>,
    arguments: &Value,
) -> BoxFuture<'static, Result<Value, ToolFailure>> {
    let arguments = arguments.to_string();
    Box::pin(async move {
        let (sender, receiver) = oneshot::channel();
        let shared = Shared { reply: Some(sender), ..Shared::default() };
        let shared = Arc::new(Mutex::new(shared));
        let waiting = CancelOnDrop(Arc::clone(&shared));
        spawn_blocking(move || {
            Python::try_attach(|py| {
                let failed = Arc::clone(&shared);
                let called = Py::new(py, ToolCall { shared })
                    .and_then(|call| function.call1(py, (arguments, call)));
                if let Err(error) = called {
                    ToolCall { shared: failed }.answer(Err(error.to_string()));
                }
            })
        });
        let reply = receiver.await;
        drop(waiting);
        match reply {
            Ok(Ok(text)) => serde_json::from_str(&text)
                .map_err(|error| ToolFailure::new(format!("its result is not JSON: {error}"))),
            Ok(Err(message)) => Err(ToolFailure::new(message)),
            Err(_) => Err(ToolFailure::new("it ended without an answer")),
        }
    })
}
