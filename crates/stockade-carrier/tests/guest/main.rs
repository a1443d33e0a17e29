//! The carried guest outside any wall, spoken with over a link.
#![expect(clippy::unwrap_used, reason = "what the tests share fails by panicking, as they do")]

mod ends;
mod frames;
mod hostile;
mod lanes;
mod memory;
mod opened;
mod overhead;
mod starts;
mod streams;
mod support;
