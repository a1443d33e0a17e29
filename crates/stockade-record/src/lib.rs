//! The record of a session, kept outside of its sandbox: typed events, numbered and chained by
//! hashes, one line of JSON each.

mod egress;
mod sink;

pub use egress::{Egress, Inspection, Via};
pub use sink::{Sink, Unrecorded};
