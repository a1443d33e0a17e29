//! The tool broker: reads, judges, checks and answers tool calls from a sandbox, on the host.
//!
//! Everything from inside the sandbox is untrusted: it is bounded before it is kept, and has a
//! single interpretation. Results of tools are bounded and checked too; a tool that hangs, crashes
//! or sends too much fails only its call.

mod broker;
mod closure;
mod command;
mod connect;
mod error;
mod fault;
mod file;
mod glue;
mod http;
mod json;
mod lines;
mod listed;
mod mcp;
mod program;
mod run;
mod schema;
mod task;
mod tool;
mod tools;
mod words;

pub use connect::{Connect, SystemConnect};
/// Derives the schemas of a typed tool's arguments and result.
pub use schemars;

pub use broker::{Observed, ToolBroker};
pub use error::ToolsError;
pub use fault::ToolFailure;
pub use file::{HostEnvironment, ToolsFile, ToolsFileError, TrustedPaths};
pub use tool::Tool;
pub use tools::Tools;

#[doc(hidden)]
pub mod fuzzing;
