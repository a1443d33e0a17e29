//! `stockade run`, end to end: every test builds a real wall on the real kernel.

mod canaries;
mod limits;
mod mounts;
mod neighbours;
mod outcomes;
mod support;
mod workspace;
