//! The report of an execution for Python: JSON without the output, and the output as bytes.

use std::mem;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stockade_engine::RunReport;

use crate::failure::Problem;
use crate::operation::{Answer, Finished};

/// A tuple of the report as JSON, standard output and standard error.
pub(crate) fn answer(mut report: RunReport) -> Finished {
    let stdout = mem::take(&mut report.stdout.bytes);
    let stderr = mem::take(&mut report.stderr.bytes);
    let provider = report.plan.take().map(|plan| plan.provider);
    let mut view = serde_json::to_value(&report).map_err(|error| {
        let message = format!("cannot describe the end of the program: {error}");
        Problem::new("internal", message, "report it: this is a defect of Stockade")
    })?;
    view["provider"] = serde_json::json!(provider);
    let text = view.to_string();
    let answer: Answer = Box::new(move |py| {
        let (stdout, stderr) = (PyBytes::new(py, &stdout), PyBytes::new(py, &stderr));
        Ok((text, stdout, stderr).into_pyobject(py)?.into_any().unbind())
    });
    Ok(answer)
}
