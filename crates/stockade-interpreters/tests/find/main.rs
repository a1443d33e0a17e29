//! Which interpreter is found, in made-up homes of every layout and in this machine's own.

// Always true here; it tells clippy that the functions between the tests are tests too.
#![cfg(test)]

mod home;
mod layouts;
mod loading;
mod managers;
mod real;
mod safety;
