//! `stockade doctor` on the real kernel: what it says can be enforced is, and what it says cannot
//! be is refused by `policy plan` and `run` with the same words.

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
