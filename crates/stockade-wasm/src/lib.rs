//! The WebAssembly wall: CPython as a component, without processes and without a kernel inside.
//!
//! ```text
//! component ── verified ──▶ compiled ahead of time, kept ──▶ Template
//! policy ── plan ──▶ WasmSandbox: files in memory, budgets
//! Template + WasmSandbox ── one instance per execution, on a thread of its own ──▶ Running
//! ```
//! An instance has no system calls: it reaches only the functions that this crate gives it, which
//! are files in memory and in mounted directories, streams, clocks, randomness, the tool broker and
//! the network gate. Its memory is a private copy-on-write view of the compiled component.

mod abilities;
pub mod bindings;
mod compiled;
mod component;
mod engine;
mod error;
mod execution;
mod files;
mod guest;
mod http;
mod limits;
mod machine;
mod mounts;
mod output;
mod provider;
mod sandbox;
mod template;
mod tools;

pub use abilities::reference_abilities;
pub use compiled::CompiledFile;
pub use component::{COMPONENT_DIGEST, component_directory};
pub use error::{WasmError, obstacle};
pub use execution::{ExecutionLimits, Meter, Outputs, end_of_outcome};
pub use files::FilesystemView;
pub use guest::Guest;
pub use limits::Budgets;
pub use machine::{Machine, Run};
pub use provider::{WasmProvider, sandbox};
pub use template::{ComponentLook, compiled_for, is_compiled_for, look, show_progress};
