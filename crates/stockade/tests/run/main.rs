//! `stockade run`, end to end: every test builds a real wall on the real kernel.

mod limits;
mod outcomes;
mod support;
