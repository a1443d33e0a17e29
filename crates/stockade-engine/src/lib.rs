//! Sessions behind a wall, for one program or many: the policy's decision, the choice of the wall,
//! the deadlines, the output, and the outcome.
//!
//! The engine knows walls only by their trait. It derives outcomes from kernel facts and from its
//! own clock, never from text or from an exit code that a program chose.

mod choose;
mod contexts;
mod decided;
mod engine;
mod environment;
mod error;
mod execute;
mod files;
mod gate;
mod outcome;
mod output;
mod ports;
mod record;
mod record_place;
mod report;
mod request;
mod services;
mod session;
mod signal;
mod state;
mod stopping;
mod wait;

#[cfg(test)]
mod scripted;

pub use contexts::{CallReport, ContextCall, ContextError, ContextEvent, ContextRequest};
pub use engine::Engine;
pub use error::RunError;
pub use gate::Audit;
pub use outcome::Outcome;
pub use output::{OutputStream, StreamOutput};
pub use ports::{ForwardedPort, PortError};
pub use record_place::{RecordPlaceError, ShownPath, keep_record_apart, real_path, shown_paths};
pub use report::{RunReport, Usage};
pub use request::{Live, RunRequest, SessionRequest, Streams};
pub use services::Passage;
pub use session::{ExecutionRequest, Session, StartedExecution, entry};
pub use signal::signal_name;
pub use state::{Kept, OtherPolicy};
pub use stockade_contexts::{
    CellError, ContextName, ContextNameError, ContextReport, ContextResult, ContextView, MimeBundle,
};
pub use stockade_egress::{Learned, SecretError};
pub use stockade_tools::{
    Tool, ToolFailure, Tools, ToolsError, ToolsFile, ToolsFileError, TrustedPaths, schemars,
};
pub use stopping::Cancel;

/// Compiles the code examples of the page about tools.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tools.md")]
struct PageAboutTools;
