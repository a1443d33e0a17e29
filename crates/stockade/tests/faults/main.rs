//! Starts in which one step fails: the kernel refuses a system call, or a process of Stockade is
//! killed. No program runs, nothing stays on the host, and the error names the failed step.

mod deaths;
#[path = "../leftovers/mod.rs"]
mod leftovers;
mod reduced;
mod refusals;
mod refusing;
