//! What runs the programs of a sandbox: instances in this process, or another wall's machine.
//!
//! The sandbox itself, with its files, streams, limits and requests, is the same for both.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_provider::{Error, ProcessEnd};
use tokio::sync::watch;

use crate::WasmError;
use crate::bindings::Program;
use crate::execution::{ExecutionLimits, Meter, Outputs, Streams};
use crate::files::Tree;
use crate::guest::{Guest, HostCalls};
use crate::limits::Budgets;
use crate::mounts::Mounts;

/// Runs programs of one sandbox.
pub trait Machine: Send + Sync {
    /// The name of the wall, for messages.
    fn wall(&self) -> &'static str;

    /// Runs one program to its end. Dropping the future ends the program.
    fn run(&self, run: Run) -> BoxFuture<'_, Result<ProcessEnd, Error>>;

    /// Ends the machine. Every program has ended.
    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// What one execution needs.
pub struct Run {
    /// The program.
    pub program: Program,
    /// Its limits.
    pub limits: ExecutionLimits,
    /// What it used so far.
    pub meter: Arc<Meter>,
    /// True while the sandbox is paused.
    pub paused: watch::Receiver<bool>,
    /// What the sandbox may use.
    pub budgets: Arc<Budgets>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) mounts: Arc<Mounts>,
    pub(crate) calls: HostCalls,
    pub(crate) streams: Streams,
}

impl Run {
    /// The host's side of an instance that runs elsewhere and does not report closed files.
    pub fn into_remote(self, resources: usize) -> Result<(Program, Guest, Outputs), WasmError> {
        self.into_parts(resources, false)
    }
}
