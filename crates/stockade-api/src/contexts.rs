//! Contexts: interpreters of a session that keep their state between calls.
//!
//! ```text
//! client ── Request::Context(Run) ──▶ supervisor
//!        ── Code frames, then CodeEnd ──▶
//!        ◀── Reply::Started ──
//!        ◀── Output, Error and Result frames, in the order of the call ──
//!        ◀── Reply::Ended ──          its report has the fields of ContextReport too
//! ```
//! A client that closes its end for writing interrupts the call, and reads how it ended.

use serde::{Deserialize, Serialize};
pub use stockade_contexts::{
    CellError, ContextName, ContextNameError, ContextReport, ContextResult, ContextView, MimeBundle,
};

/// A request about contexts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ContextParams {
    /// Start a context. Answered with [`crate::Reply::Contexts`], which has only the new one.
    Create(CreateContextParams),
    /// Run code, which follows in frames of its own. A name that has no context starts one, in
    /// the workspace.
    Run(RunInContextParams),
    /// List the contexts.
    List,
    /// Interrupt the call that runs, as Ctrl-C does. Has no effect if none runs.
    Interrupt {
        /// Which context.
        name: String,
    },
    /// End the interpreter and start a new one, in the same directory and with the same variables.
    /// Answered with [`crate::Reply::Contexts`], which has only this one.
    Restart {
        /// Which context.
        name: String,
    },
    /// End the interpreter and forget the context.
    Remove {
        /// Which context.
        name: String,
    },
}

/// A context to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateContextParams {
    /// The name; `None` is one that the supervisor chooses.
    pub name: Option<String>,
    /// The language; only `python` is accepted.
    pub language: String,
    /// Where it starts; `None` is the workspace.
    pub working_directory: Option<String>,
    /// Variables, in addition to those of the session.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the client passes them to
    /// this context knowingly.
    pub credentials: Vec<String>,
}

/// One call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInContextParams {
    /// Which context.
    pub name: String,
    /// The language of the code; only `python` is accepted.
    pub language: String,
    /// Variables during this call.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the client passes them to
    /// this call knowingly.
    pub credentials: Vec<String>,
    /// How long it may run, if that is less than the policy allows.
    pub timeout_ms: Option<u64>,
}
