//! The files of sandboxes of a real wall.
// Always true here; with it clippy treats the functions between the tests as test code.
#![cfg(test)]

mod basics;
mod races;
mod support;
mod transfer;
