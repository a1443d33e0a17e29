//! Where events go.

use std::fmt;

use crate::Egress;

/// The record could not be written, so whatever it would have told must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be written")]
pub struct Unrecorded;

/// Takes the decisions of a gate. Called from any thread; returns when the event is kept.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Keeps one decision. After a failure the gate lets nothing pass any more.
    fn egress(&self, event: Egress) -> Result<(), Unrecorded>;
}
