//! Tests of the carried guest outside any wall, over a link.
#![expect(clippy::unwrap_used, reason = "what the tests share fails by panicking, as they do")]

mod ends;
mod executions;
mod frames;
mod heartbeat;
mod hostile;
mod hostile_files;
mod memory;
mod opened;
mod overhead;
mod own;
mod ports;
mod pump;
mod splice;
mod starts;
mod streams;
mod support;
