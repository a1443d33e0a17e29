//! Which interpreter is found, in fake homes of every layout and on this machine.

// Always true here; it marks the functions between the tests as test code for clippy.
#![cfg(test)]

mod home;
mod layouts;
mod loading;
mod managers;
mod real;
mod safety;
