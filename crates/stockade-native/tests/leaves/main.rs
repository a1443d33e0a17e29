//! Each execution of a sandbox can be ended, measured and stopped without touching the others.
// Always true here; with it clippy treats the functions between the tests as test code.
#![cfg(test)]

mod ends;
mod many;
mod programs;
#[path = "../executions/support.rs"]
mod support;
mod usage;
