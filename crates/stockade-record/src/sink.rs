//! Where events go.

use std::fmt;

use crate::{Egress, ToolCall};

/// The record could not be written, so whatever it would have told must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be written")]
pub struct Unrecorded;

/// Takes the decisions of a gate and of a tool broker. Called from any thread; returns when the event is kept.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Keeps one decision. After a failure the gate lets nothing pass any more.
    fn egress(&self, event: Egress) -> Result<(), Unrecorded>;

    /// Keeps what came of one call to a tool. After a failure the tool broker answers no further call.
    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded>;
}
