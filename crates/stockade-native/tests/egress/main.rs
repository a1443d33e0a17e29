//! Programs inside a real wall, and a gateway on the host that records what they open.
// Always true here; with it clippy treats the functions between the tests as test code.
#![cfg(test)]

mod alone;
mod executions;
mod gateway;
mod many;
mod speed;
mod splice;
mod support;
mod works;
