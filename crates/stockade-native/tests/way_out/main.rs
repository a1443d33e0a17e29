//! Programs behind the real wall, and a gateway on the host that sees what they open.
// Always true here; it tells clippy that the functions between the tests are tests too.
#![cfg(test)]

mod alone;
mod executions;
mod gateway;
mod many;
mod speed;
mod splice;
mod support;
mod works;
