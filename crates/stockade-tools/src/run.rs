//! What runs when a tool is called.

use std::fmt;

use futures_core::future::BoxFuture;
use serde_json::Value;

use crate::fault::Fault;
use crate::json::Bounds;

/// One call, as whatever runs the tool sees it. The arguments fit the tool's schema.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) arguments: Value,
    /// What the result may be. Whoever reads one from outside keeps to it while reading.
    pub(crate) bounds: Bounds,
}

/// Runs a tool.
pub(crate) trait Run: Send + Sync + fmt::Debug {
    /// Answers one call. Calls come at the same time; dropping the future cancels its call and
    /// ends whatever was started for it. A panic is taken for a tool that broke.
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>>;
}
