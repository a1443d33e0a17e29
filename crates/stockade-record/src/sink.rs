//! Where events go.

use std::fmt;

use crate::{Egress, ToolCall};

/// The record could not be written, so the recorded act must not continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be written")]
pub struct Unrecorded;

/// Receives the decisions of a gate and of a tool broker. Called from any thread; returns when the
/// event is written.
///
/// The execution of an event is the wall's number of the program for which the gate or the broker
/// worked, if the wall knows it.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Records one decision. After a failure the gate allows nothing more.
    fn egress(&self, event: Egress) -> Result<(), Unrecorded>;

    /// Records the result of one tool call. After a failure the tool broker answers no further
    /// call.
    fn tool_call(&self, event: ToolCall) -> Result<(), Unrecorded>;
}
