//! The wall through its interface, with the component that `cargo xtask component python` makes.
// Always true here; with it clippy treats the functions between the tests as test code.
#![cfg(test)]

mod executions;
mod files;
mod rounds;
mod support;
