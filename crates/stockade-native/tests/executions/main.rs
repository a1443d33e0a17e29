//! Programs in sandboxes of the real wall, as a program that embeds Stockade starts them.
// Always true here; with it clippy treats the functions between the tests as test code.
#![cfg(test)]

mod embedded;
mod prepared;
mod started;
mod support;
mod terminals;
