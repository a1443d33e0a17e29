//! `stockade run`, end to end: every test builds a real wall on the real kernel.

mod account;
mod advice;
mod bench;
mod canaries;
mod code;
mod ends;
mod environment;
mod examples;
mod guest;
mod interpreters;
mod leftovers;
mod limits;
mod locks;
mod memory;
mod mounts;
mod neighbours;
mod outcomes;
mod output;
mod permissions;
mod profiles;
mod reduced;
mod refusals;
mod scratch;
mod support;
mod tools;
mod workspace;
