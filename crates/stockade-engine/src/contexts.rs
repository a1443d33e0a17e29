//! Contexts of a session: interpreters that keep their state between calls.
//!
//! ```text
//! absent ── create, or the first call ──▶ idle ── call ──▶ busy ── done ──▶ idle
//!                                           │                └── interrupt, timeout ──▶ idle, or killed
//!                                           └── exit, kill, out of memory ──▶ ended ── restart ──▶ idle
//! ```
//! A context is one long execution in the session. Its calls are executions of their own in the
//! record: the policy judges the code of each, and each has a time limit and a limit for output.

mod call;
mod error;
mod inside;
mod start;
mod table;

use std::time::Duration;

use stockade_contexts::{ContextName, ContextReport, ContextResult};
use stockade_policy::Context;

use crate::{OutputStream, RunReport};

pub use error::ContextError;
pub(crate) use table::Contexts;

/// How long a call may go on after it was interrupted; then its context is killed.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);

/// A context to start.
#[derive(Clone, Debug)]
pub struct ContextRequest {
    /// Its name; `None` is one that no other context of the session has.
    pub name: Option<ContextName>,
    /// Its language; only `python` is accepted.
    pub language: String,
    /// Where it starts, an absolute path inside; `None` is the workspace.
    pub working_directory: Option<String>,
    /// The caller's variables, in addition to those of the session and of the policy.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the caller passes them to
    /// this context knowingly.
    pub credentials: Vec<String>,
}

impl ContextRequest {
    /// A context for Python in the workspace.
    pub fn python(name: Option<ContextName>) -> ContextRequest {
        ContextRequest {
            name,
            language: PYTHON.to_owned(),
            working_directory: None,
            environment: Vec::new(),
            credentials: Vec::new(),
        }
    }
}

/// The only language that contexts have.
const PYTHON: &str = "python";

/// One call of a context.
#[derive(Clone, Debug)]
pub struct ContextCall {
    /// The language of the code; only `python` is accepted.
    pub language: String,
    /// The code.
    pub code: Vec<u8>,
    /// Variables during the call.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the caller passes them to
    /// this call knowingly.
    pub credentials: Vec<String>,
    /// How long it may run, if that is less than the policy allows.
    pub timeout: Option<Duration>,
    /// The context of rules for the code; `None` is that of the session.
    pub rules: Option<Context>,
}

impl ContextCall {
    /// Python code with the time limit of the policy.
    pub fn python(code: impl Into<Vec<u8>>) -> ContextCall {
        ContextCall {
            language: PYTHON.to_owned(),
            code: code.into(),
            environment: Vec::new(),
            credentials: Vec::new(),
            timeout: None,
            rules: None,
        }
    }
}

/// What a call writes and shows, in order for each stream.
#[derive(Clone, Debug, PartialEq)]
pub enum ContextEvent {
    /// Output.
    Output(OutputStream, Vec<u8>),
    /// A value.
    Result(Box<ContextResult>),
}

/// How a call ended.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CallReport {
    /// As for every execution; its output is only counted.
    #[serde(flatten)]
    pub report: RunReport,
    /// What only a call of a context has.
    #[serde(flatten)]
    pub context: ContextReport,
}
