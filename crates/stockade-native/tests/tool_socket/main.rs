//! Programs behind the real wall that call tools, and a broker on the host that answers them.
// Always true here; it tells clippy that the functions between the tests are tests too.
#![cfg(test)]

mod broker;
mod command;
mod kept;
mod many;
mod places;
mod roots;
mod support;
mod works;
