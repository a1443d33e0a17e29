//! The micro-VM wall: CPython as a component in a Hyperlight virtual machine.
//!
//! ```text
//! worker, component ── compiled for the runtime, kept ──▶ image
//! policy ── plan ──▶ sandbox of the WebAssembly wall: files in memory, streams, requests
//!   ── jail: a sandbox of another wall with /dev/kvm ──▶ worker ── one micro-VM ──▶ CPython
//! ```
//! The component is that of the WebAssembly wall, and so is the host's side of it: files, streams,
//! tools and requests. Only the instance runs elsewhere, in a virtual machine that a worker owns.
//! The worker is a process of its own in a jail: a program that leaves its machine is in there.

mod abilities;
mod error;
mod functions;
mod jail;
mod link;
mod machine;
mod program;
mod protocol;
mod provider;
mod values;
mod worker;

pub use abilities::reference_abilities;
pub use error::{HyperlightError, obstacle};
pub use link::MachineTimes;
pub use provider::{HyperlightProvider, KVM};
pub use worker::{WORKER, WorkerLook, look};
