//! What front ends show of a context and of a call.

use serde::{Deserialize, Serialize};

use crate::CellError;

/// The fields of a report that only a call of a context has, next to those of every report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextReport {
    /// Which context.
    pub context: String,
    /// How many calls the interpreter has executed; `None` if it ended during the call.
    pub execution_count: Option<u64>,
    /// The exception that ended the call.
    pub error: Option<CellError>,
    /// How many results were dropped because the results of the call were too large.
    pub dropped_results: u64,
    /// Whether the interpreter still runs, with its state.
    pub is_alive: bool,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextView {
    /// Its name.
    pub name: String,
    /// Its language.
    pub language: String,
    /// Where it started, an absolute path; `None` is the workspace.
    pub working_directory: Option<String>,
    /// `idle`, `busy`, or `ended`: then only a restart makes it usable.
    pub state: String,
    /// Why it has ended.
    pub why: Option<String>,
    /// How many calls were executed since the interpreter started.
    pub execution_count: u64,
    /// When its interpreter was started, in seconds since 1970.
    pub started: u64,
}
