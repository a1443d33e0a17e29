//! The managed wall: a sandbox of Azure Container Apps, driven over the service's REST interface.
//!
//! ```text
//! AcaOptions ── check ──▶ Settings ── Service: tokens, HTTPS, retries ──▶ data plane, ARM
//! policy ── plan ──▶ create call with its egress policy ── read back, compare ──▶ AcaSandbox
//! execution ── files: code, specification ── one constant command ── runner inside ──▶ result
//! ```
//! No guest of Stockade runs inside. A runner, one Python program that this crate uploads, starts
//! each program as an unprivileged user, bounds it and reports its end. Everything that comes back
//! is untrusted. See docs/azure.md.

mod abilities;
mod call;
mod cleanup;
mod client;
mod credential;
mod decisions;
mod egress;
mod error;
mod execution;
mod files;
mod group;
mod http;
mod options;
mod plan;
mod provider;
mod runner;
mod sandbox;
mod secret;
mod self_test;
mod settings;
mod start;
mod token;
mod tools;
mod trees;
mod wire;

pub use abilities::reference_abilities;
pub use cleanup::sweep;
pub use error::AcaError;
pub use options::{AcaOptions, CredentialChoice, Timing};
pub use provider::AcaProvider;
pub use secret::Secret;
pub use self_test::{SelfTest, SelfTestStep};
pub use token::{Token, TokenSource};
