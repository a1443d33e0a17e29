//! Checkpoints of sandboxes.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use stockade_api::StoreParams;
use stockade_store::{Checkpoint, Reference, Store, StoreError};
use stockade_supervisor::checkpoint_view;

use crate::failure::Problem;

/// The store of this user.
pub(crate) fn store() -> Result<Store, Problem> {
    stockade::checkpoint_store().map_err(refused)
}

/// The same for the supervisor of a session.
pub(crate) fn params() -> Result<StoreParams, Problem> {
    stockade::checkpoint_store_params().map_err(refused)
}

/// A checkpoint by `SESSION/NAME`.
pub(crate) fn checkpoint(store: &Store, reference: &str) -> Result<Checkpoint, Problem> {
    let reference: Reference = reference.parse().map_err(|error| failed(&error))?;
    store.checkpoint(&reference).map_err(|error| failed(&error))
}

/// A checkpoint as JSON.
pub(crate) fn view(checkpoint: &Checkpoint) -> String {
    serde_json::to_string(&checkpoint_view(checkpoint)).unwrap_or_default()
}

pub(crate) fn failed(error: &StoreError) -> Problem {
    let kind = match error {
        StoreError::Name { .. } => "invalid",
        _ => "state",
    };
    Problem::new(kind, stockade_provider::chain(error), error.remedy())
}

fn refused((message, remedy): stockade::Refusal) -> Problem {
    Problem::new("state", message, remedy)
}

/// The checkpoints of a session, or all, as JSON.
#[pyfunction]
#[pyo3(signature = (session))]
pub(crate) fn checkpoints(session: Option<&str>) -> PyResult<String> {
    let found = store()?.checkpoints(session).map_err(|error| failed(&error))?;
    let views: Vec<_> = found.iter().map(checkpoint_view).collect();
    Ok(serde_json::to_string(&views).unwrap_or_default())
}

/// Removes a checkpoint.
#[pyfunction]
pub(crate) fn remove_checkpoint(reference: &str) -> PyResult<()> {
    let reference: Reference = reference.parse().map_err(|error| failed(&error))?;
    Ok(store()?.remove(&reference).map_err(|error| failed(&error))?)
}

/// Writes a checkpoint to a new file.
#[pyfunction]
pub(crate) fn export_checkpoint(py: Python<'_>, reference: &str, file: PathBuf) -> PyResult<()> {
    let store = store()?;
    let checkpoint = checkpoint(&store, reference)?;
    let written = py.detach(|| stockade_store::export(&store, &checkpoint, &file));
    Ok(written.map_err(|error| failed(&error))?)
}

/// Reads a checkpoint from a file, under its own reference or another. The result describes it, as
/// JSON.
#[pyfunction]
#[pyo3(signature = (file, reference))]
pub(crate) fn import_checkpoint(
    py: Python<'_>,
    file: PathBuf,
    reference: Option<&str>,
) -> PyResult<String> {
    let reference = reference.map(str::parse::<Reference>).transpose();
    let reference = reference.map_err(|error| failed(&error))?;
    let store = store()?;
    let read = py.detach(|| stockade_store::import(&store, &file, reference.as_ref()));
    Ok(view(&read.map_err(|error| failed(&error))?))
}

/// What a checkpoint changed, as JSON.
#[pyfunction]
#[pyo3(signature = (reference, *, earlier, all))]
pub(crate) fn differences(
    py: Python<'_>,
    reference: &str,
    earlier: Option<String>,
    all: bool,
) -> PyResult<String> {
    let found = py.detach(|| stockade::differences(reference, earlier, all));
    Ok(found.map_err(refused)?.to_string())
}

/// Writes changes of a checkpoint to the host; what became of each as JSON.
#[pyfunction]
#[pyo3(signature = (reference, *, to, only, accept, dry_run))]
pub(crate) fn apply_checkpoint(
    py: Python<'_>,
    reference: &str,
    to: Option<PathBuf>,
    only: Vec<OsString>,
    accept: Vec<OsString>,
    dry_run: bool,
) -> PyResult<String> {
    let done = py.detach(|| stockade::apply_checkpoint(reference, to, only, accept, dry_run));
    Ok(done.map_err(refused)?.to_string())
}
