//! The system-call filter of a Linux wall: what a program inside may ask of the kernel.
//!
//! Everything here is a decision over plain values; nothing is installed and no file is read.
//! ```text
//! Options ── built_in ──> Profile ──┐
//!                                   ├─ tighten ──> Filters ── compile ──> Programs, in order
//! text ── CustomProfile ── resolve ─┘
//! ```
//! A profile denies by default. It is compiled into classic BPF as a tree over the call numbers; a
//! profile of the user's becomes a second program, because the kernel keeps the stricter answer of
//! the two and nothing has to be merged.

mod architecture;
mod built_in;
mod compile;
mod custom;
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
pub use memory::{MemoryHolder, unseen_memory};
pub use profile::{Action, Call, Comparison, Condition, Profile, Rule, Width};
pub use ready::ready;
pub use reduced::{Ids, reduced};
pub use start::{forbids_start, is_forbidden, needed_to_start};
pub use syscall::Syscall;
pub use tighten::{Filters, tighten};
