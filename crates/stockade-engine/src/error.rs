//! Errors of runs without an outcome.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stockade_policy::VariableError;
use stockade_provider::{Obstacle, WallReport};
use stockade_record::WriteError;

use crate::OutputStream;

/// Stockade itself could not run the program; nothing of it is left. Callers match every variant.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No wall was given to the engine.
    #[error("no wall is built into this version of Stockade")]
    NoProvider,
    /// The requested wall does not exist in this version.
    #[error("the {name} wall is not built into this version of Stockade")]
    UnknownProvider {
        /// The requested name.
        name: String,
        /// The names of the existing walls.
        known: Vec<&'static str>,
    },
    /// The wall cannot be used on this host at all.
    #[error("the {} wall cannot be used here: {}", report.provider, obstacle.reason)]
    Unusable {
        /// Why, and what to do.
        obstacle: Obstacle,
        /// The wall's answer for each control.
        report: Box<WallReport>,
    },
    /// The wall cannot enforce the whole policy.
    #[error("the {} wall cannot enforce the policy here", report.provider)]
    Unenforceable {
        /// The wall's answer for each control.
        report: Box<WallReport>,
    },
    /// The wall does not support this kind of program.
    #[error("{}", obstacle.reason)]
    Program {
        /// Which kind, and what to do.
        obstacle: Obstacle,
    },
    /// A variable of the caller may not be set inside.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// The policy sets the variable, or reserves it for a secret.
    #[error("the policy sets the variable `{name}` itself")]
    VariableTaken {
        /// The variable.
        name: String,
    },
    /// A value that an environment cannot contain.
    #[error("the value of `{name}` has a zero byte or more than {limit} bytes")]
    VariableValue {
        /// The variable.
        name: String,
        /// The size limit in bytes.
        limit: usize,
    },
    /// The wall failed.
    #[error(transparent)]
    Wall(#[from] stockade_provider::Error),
    /// Building the sandbox took too long.
    #[error("gave up building the sandbox after {} seconds", limit.as_secs())]
    StartTooLong {
        /// The time limit.
        limit: Duration,
    },
    /// The program's output could not be written to its destination.
    #[error("cannot pass on what the program wrote to {stream}")]
    Output {
        /// Which stream.
        stream: OutputStream,
        /// Why.
        source: io::Error,
    },
    /// The gate could not be created.
    #[error("cannot make the gate that connections pass")]
    Gate(#[from] stockade_egress::GateError),
    /// A secret of the policy cannot be used.
    #[error(transparent)]
    Secret(#[from] stockade_egress::SecretError),
    /// The store of checkpoints failed.
    #[error(transparent)]
    Store(#[from] stockade_store::StoreError),
    /// A checkpoint cannot be made or restored now.
    #[error("cannot {doing}: {reason}")]
    State {
        /// The operation.
        doing: &'static str,
        /// Why.
        reason: String,
        /// Advice for the user.
        remedy: &'static str,
    },
    /// The record could not be written, so the run is stopped.
    #[error(transparent)]
    Record(Arc<WriteError>),
}
