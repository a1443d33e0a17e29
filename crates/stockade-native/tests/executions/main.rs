//! Programs in sandboxes of the real wall, as a program that embeds Stockade starts them.
// Always true here; it tells clippy that the functions between the tests are tests too.
#![cfg(test)]

mod embedded;
mod started;
mod support;
