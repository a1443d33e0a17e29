//! Events of a record, as JSON.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use serde_json::json;
use stockade_record::{Event, Reader, Summary};

use crate::failure::Problem;

/// How many events one call returns at most.
const MOST: usize = 1000;

/// Reads the record of a sandbox, also while it is written.
#[pyclass(frozen)]
pub(crate) struct Events {
    reader: Mutex<Reader>,
}

#[pymethods]
impl Events {
    /// Opens a record.
    #[new]
    fn new(path: PathBuf) -> PyResult<Events> {
        let reader = Reader::open(&path).map_err(|error| Problem::unreadable(&error))?;
        Ok(Events { reader: Mutex::new(reader) })
    }

    /// The next complete events, each as JSON; empty at the current end.
    fn read(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let mut events = Vec::new();
            while events.len() < MOST {
                match reader.next().map_err(|error| Problem::unreadable(&error))? {
                    Some(event) => events.push(view(&event)),
                    None => break,
                }
            }
            Ok(events)
        })
    }

    /// Whether the last event of a complete record was read.
    #[getter]
    fn is_complete(&self) -> bool {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).is_complete()
    }
}

/// Counts of the requests and tool calls of a record, as JSON.
#[pyfunction]
pub(crate) fn summary(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| {
        let unreadable = |error| Problem::unreadable(&error);
        let mut reader = Reader::open(&path).map_err(unreadable)?;
        let mut summary = Summary::default();
        while let Some(event) = reader.next().map_err(unreadable)? {
            summary.add(&event);
        }
        Ok(json!(summary).to_string())
    })
}

fn view(event: &Event) -> String {
    let mut view = json!({
        "sequence": event.sequence,
        "time": event.time,
        "session": event.session,
    });
    if let (Some(view), Ok(serde_json::Value::Object(body))) =
        (view.as_object_mut(), serde_json::to_value(&event.body))
    {
        view.extend(body);
    }
    view.to_string()
}
