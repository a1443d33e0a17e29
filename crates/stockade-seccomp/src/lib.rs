//! The system-call filter of a Linux wall: which kernel calls a program inside may make.
//!
//! All functions are pure; this crate installs no filter and reads no file.
//! ```text
//! Options ── built_in ──> Profile ──┐
//!                                   ├─ tighten ──> Filters ── compile ──> Programs, in order
//! text ── CustomProfile ── resolve ─┘
//! ```
//! A profile denies by default. It compiles to classic BPF with a search tree over the call
//! numbers. A user's profile becomes a second program, because the kernel applies the stricter
//! result of the two, so no merging is needed.

mod architecture;
mod built_in;
mod compile;
mod custom;
mod engine_json;
mod memory;
mod profile;
mod ready;
mod reduced;
mod start;
mod syscall;
mod tighten;

pub use architecture::Architecture;
pub use built_in::{ExecutableMemfd, Options, Tracing, built_in};
pub use compile::{CompileError, Program, compile};
pub use custom::{CustomProfile, Host, ProfileError, ResolveError};
pub use engine_json::{engine_json, wider};
pub use memory::{MemoryHolder, unseen_memory};
pub use profile::{Action, Call, Comparison, Condition, Profile, Rule, Width};
pub use ready::ready;
pub use reduced::{Ids, reduced};
pub use start::{forbids_start, is_forbidden, needed_to_start};
pub use syscall::Syscall;
pub use tighten::{Filters, tighten};
