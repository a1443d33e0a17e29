//! The desk: the one place on the host where calls of tools from a sandbox are read, judged,
//! checked and answered.
//!
//! Everything that comes from inside is hostile: it is bounded before it is kept, and read in one
//! way only. What tools answer is bounded and checked as well; one that hangs, crashes or floods
//! costs the call it was asked in.

mod closure;
mod command;
mod connect;
mod desk;
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

pub use desk::{Desk, Observed};
pub use error::ToolsError;
pub use fault::ToolFailure;
pub use file::{Deciding, Surroundings, ToolsFile, ToolsFileError};
pub use tool::Tool;
pub use tools::Tools;

#[doc(hidden)]
pub mod fuzzing;
