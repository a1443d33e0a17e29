//! Failures, as the package turns them into exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde_json::{Value, json};
use stockade_engine::{RunError, ToolsError};
use stockade_policy::{CombineError, PolicyErrors};
use stockade_provider::{Error, ErrorKind, Finding, WallReport, chain};
use stockade_record::{ReadError, WriteError};

create_exception!(
    _stockade,
    Failure,
    PyException,
    "A failure: its kind, message and remedy, and details as JSON."
);

/// Advice for an error of a wall that has none of its own.
const SEE_DOCTOR: &str = "see what this host can enforce: stockade.doctor()";

/// A failure that has not been raised as a Python exception yet.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: &'static str,
    message: String,
    remedy: String,
    details: Box<Value>,
}

impl Problem {
    pub(crate) fn new(
        kind: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem { kind, message: message.into(), remedy: remedy.into(), details: Box::default() }
    }

    fn with_details(self, details: Value) -> Problem {
        Problem { details: Box::new(details), ..self }
    }

    /// The caller passed a value that cannot be used.
    pub(crate) fn invalid(message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem::new("invalid", message, remedy)
    }

    /// The sandbox is closed.
    pub(crate) fn closed() -> Problem {
        Problem::new("closed", "the sandbox is closed", "open another one")
    }

    /// Another process made the object, and this process is a fork of it.
    pub(crate) fn forked() -> Problem {
        let message = "this object belongs to the process from which this one was forked";
        Problem::new("forked", message, "open a sandbox in this process")
    }

    /// The caller cancelled an operation.
    pub(crate) fn cancelled() -> Problem {
        Problem::new("cancelled", "the operation was cancelled", "repeat it if it is needed")
    }

    /// A file of a record cannot be read.
    pub(crate) fn unreadable(error: &ReadError) -> Problem {
        Problem::new("record", chain(error), "check its file: stockade audit verify")
    }
}

impl From<Problem> for PyErr {
    fn from(problem: Problem) -> PyErr {
        let Problem { kind, message, remedy, details } = problem;
        Failure::new_err((kind, message, remedy, details.to_string()))
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Problem {
        let message = error.to_string();
        match &error {
            RunError::NoProvider => {
                Problem::new("unavailable", message, "use a version that has a wall")
            }
            RunError::UnknownProvider { known, .. } => {
                let remedy = format!("leave provider out, or pass one of: {}", known.join(", "));
                Problem::new("unavailable", message, remedy)
            }
            RunError::Unusable { obstacle, .. } | RunError::Program { obstacle } => {
                Problem::new("unavailable", message, obstacle.remedy.clone())
            }
            RunError::Unenforceable { report } => {
                let remedy = "change each clause as its own remedy says, or choose another wall";
                Problem::new("unenforceable", format!("{message}: {}", refusals(report)), remedy)
                    .with_details(json!(report))
            }
            RunError::Variable(error) => Problem::invalid(message, error.remedy()),
            RunError::VariableTaken { .. } => {
                Problem::invalid(message, "leave it out, or remove it from the policy")
            }
            RunError::VariableValue { .. } => {
                Problem::invalid(message, "pass large values in a file")
            }
            RunError::Wall(error) => Problem::from(error),
            RunError::StartTooLong { .. } => {
                Problem::new("unavailable", message, "check that mounted file systems respond")
            }
            RunError::Gate(_) => {
                Problem::new("unavailable", chain(&error), "check that this user can read the file")
            }
            RunError::Secret(failure) => Problem::new("invalid", chain(&error), failure.remedy()),
            RunError::Record(failure) => Problem::new("record", chain(&error), failure.remedy()),
            RunError::Store(failure) => Problem::new("state", chain(&error), failure.remedy()),
            RunError::State { remedy, .. } => Problem::new("state", chain(&error), *remedy),
            RunError::Output { .. } => {
                Problem::new("internal", chain(&error), "report it: this is a defect of Stockade")
            }
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        let kind = match error.kind() {
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unenforceable => "unenforceable",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Busy => "busy",
            ErrorKind::Lost => "lost",
            ErrorKind::Internal => "internal",
        };
        Problem::new(kind, chain(error), error.remedy().unwrap_or(SEE_DOCTOR))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::from(&error)
    }
}

impl From<PolicyErrors> for Problem {
    fn from(errors: PolicyErrors) -> Problem {
        let remedy = "correct each line; `stockade policy schema` lists every key";
        let details = json!(errors.diagnostics());
        Problem::new("policy", format!("the policy is not valid\n{errors}"), remedy)
            .with_details(details)
    }
}

impl From<CombineError> for Problem {
    fn from(error: CombineError) -> Problem {
        Problem::new("policy", chain(&error), "merge some of the policies by hand")
    }
}

impl From<ToolsError> for Problem {
    fn from(error: ToolsError) -> Problem {
        Problem::invalid(chain(&error), "change the tool")
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Problem {
        Problem::new("record", chain(&error), error.remedy())
    }
}

/// What a wall cannot enforce, in one line.
fn refusals(report: &WallReport) -> String {
    let refused = report.controls.iter().filter_map(|finding| match finding {
        Finding::Refused(refused) => {
            let (requirement, obstacle) = (&refused.requirement, &refused.obstacle);
            Some(format!("{}: {} ({})", requirement.clause, obstacle.reason, obstacle.remedy))
        }
        Finding::Enforced(_) => None,
    });
    refused.collect::<Vec<String>>().join("; ")
}
