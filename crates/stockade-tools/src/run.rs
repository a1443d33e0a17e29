//! Runs a tool for a call.

use std::fmt;

use futures_core::future::BoxFuture;
use serde_json::Value;

use crate::fault::Fault;
use crate::json::Bounds;

/// One call. The arguments fit the tool's schema.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) arguments: Value,
    /// The bounds of the result. Code that reads it from outside enforces them while reading.
    pub(crate) bounds: Bounds,
}

/// Runs a tool.
pub(crate) trait Run: Send + Sync + fmt::Debug {
    /// Answers one call. Calls are concurrent; dropping the future cancels its call and ends
    /// everything started for it. A panic counts as a failure of the tool.
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>>;
}
