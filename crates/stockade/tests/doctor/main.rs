//! `stockade doctor` on the real kernel: walls enforce every control that it reports as
//! enforceable; `policy plan` and `run` refuse every other control with the same words.

mod changes;
mod delegated;
mod forbidden;
mod here;
#[path = "../leftovers/mod.rs"]
#[allow(dead_code, reason = "shared with tests that look for more")]
mod leftovers;
#[path = "../faults/refusing.rs"]
#[allow(dead_code, reason = "shared with tests that run programs")]
mod refusing;
mod support;
