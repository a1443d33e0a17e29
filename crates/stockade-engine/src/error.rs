//! Why there is no outcome.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stockade_policy::VariableError;
use stockade_provider::{Obstacle, WallReport};
use stockade_record::WriteError;

use crate::OutputStream;

/// Stockade itself could not run the program; nothing of it is left. Front doors match every case.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No wall was given to the engine.
    #[error("no wall is built into this version of Stockade")]
    NoProvider,
    /// The wall that was asked for is not there.
    #[error("the {name} wall is not built into this version of Stockade")]
    UnknownProvider {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The wall cannot be used on this host at all.
    #[error("the {} wall cannot be used here: {}", report.provider, obstacle.reason)]
    Unusable {
        /// Why, and what to do.
        obstacle: Obstacle,
        /// What the wall says to each control.
        report: Box<WallReport>,
    },
    /// The wall cannot hold everything that the policy asks for.
    #[error("the {} wall cannot enforce the policy here", report.provider)]
    Unenforceable {
        /// What the wall says to each control.
        report: Box<WallReport>,
    },
    /// The wall does not run this kind of program.
    #[error("{}", obstacle.reason)]
    Program {
        /// Which kind, and what to do.
        obstacle: Obstacle,
    },
    /// A variable of the caller's may not be set inside.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// The policy sets the variable, or keeps it for a secret.
    #[error("the policy sets the variable `{name}` itself")]
    VariableTaken {
        /// The variable.
        name: String,
    },
    /// A value that no environment can carry.
    #[error("the value of `{name}` has a zero byte or more than {limit} bytes")]
    VariableValue {
        /// The variable.
        name: String,
        /// The most bytes.
        limit: usize,
    },
    /// The wall failed.
    #[error(transparent)]
    Wall(#[from] stockade_provider::Error),
    /// Building the sandbox did not come to an end.
    #[error("gave up building the sandbox after {} seconds", limit.as_secs())]
    StartTooLong {
        /// How long it may take.
        limit: Duration,
    },
    /// What the program printed could not be passed on.
    #[error("cannot pass on what the program wrote to {stream}")]
    Output {
        /// Which stream.
        stream: OutputStream,
        /// Why.
        source: io::Error,
    },
    /// The gate could not be made.
    #[error("cannot make the gate that connections pass")]
    Gate(#[from] stockade_egress::GateError),
    /// The record could not be kept, so nothing goes on.
    #[error(transparent)]
    Record(Arc<WriteError>),
}
