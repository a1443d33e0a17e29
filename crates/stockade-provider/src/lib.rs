//! The interface of walls: what a wall can enforce on this host, the plan for a policy, and the
//! traits that every wall implements.
//!
//! Planning is pure. Facts come from probing a host; a plan names the mechanism that enforces each
//! control of a policy, or the policy is refused.

mod aged;
mod authorities;
mod caller;
mod command;
mod error;
mod execution;
mod facts;
mod file_path;
mod files;
mod gateway;
mod language;
mod outside;
mod plan;
mod ports;
mod sandbox;
mod tool_access;
mod usage;

pub use aged::Aged;
pub use authorities::{authority_variables, java_store, java_store_path};
pub use caller::{caller, on_behalf_of};
pub use command::Command;
pub use error::{Error, ErrorKind, chain};
pub use execution::{
    Execution, ExecutionControl, ExecutionId, ProcessEnd, Program, Running, Stdio, TerminalSize,
};
pub use facts::{Ability, HostFacts, Obstacle, Precision, ProgramKinds, ProviderName, WallFacts};
pub use file_path::{FilePath, FilePathError};
pub use files::{
    FileBytes, FileChange, FileChangeKind, FileEntry, FileError, FileErrorKind, FileKind,
    FileOperation, FilePart, FileStat, FileWatch, FileWriteMode, FileWriting, Files, FinalLink,
    Transfer, WritablePlace,
};
pub use gateway::{Carried, Destination, Duplex, Gateway};
pub use language::{Language, UnknownLanguage};
pub use outside::enforced_outside;
pub use plan::{Finding, HeldControl, Plan, PlanReport, RefusedControl, WallReport, plan, report};
pub use ports::Ports;
pub use sandbox::{
    EntryProgram, FACTS_AGE, ImageRoot, MOST_START, Probe, Provider, Root, Sandbox, SandboxRequest,
    StartNote,
};
pub use tool_access::ToolAccess;
pub use usage::{DecidedRequest, ExecutionUsage, SandboxUsage};
