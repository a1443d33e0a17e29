//! Programs inside a real wall call tools, and a broker on the host answers.
// Always true here; with it clippy treats the functions between the tests as test code.
#![cfg(test)]

mod broker;
mod command;
mod kept;
mod many;
mod places;
mod roots;
mod support;
mod works;
