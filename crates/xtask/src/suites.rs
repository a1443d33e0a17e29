//! The suites that build and run programs.

pub(crate) mod aarch64;
pub(crate) mod cargo;
pub(crate) mod deny;
pub(crate) mod dist;
pub(crate) mod docker;
pub(crate) mod docs;
pub(crate) mod fuzz;
pub(crate) mod hyperlight;
pub(crate) mod install;
pub(crate) mod lab;
pub(crate) mod large;
pub(crate) mod leaks;
pub(crate) mod mcp;
pub(crate) mod mutations;
pub(crate) mod native;
pub(crate) mod nested;
pub(crate) mod probes;
pub(crate) mod python;
pub(crate) mod qemu;
mod stage;
pub(crate) mod wasm;
