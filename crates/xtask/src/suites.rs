//! The suites that build and run programs.

pub(crate) mod aarch64;
pub(crate) mod cargo;
pub(crate) mod deny;
pub(crate) mod dist;
pub(crate) mod docker;
pub(crate) mod docs;
pub(crate) mod fuzz;
pub(crate) mod install;
pub(crate) mod lab;
pub(crate) mod large;
pub(crate) mod leaks;
pub(crate) mod mutations;
pub(crate) mod native;
pub(crate) mod probes;
pub(crate) mod python;
mod stage;
