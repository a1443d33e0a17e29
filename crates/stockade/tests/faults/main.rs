//! A start whose single steps fail: the kernel refuses one system call, or a part of Stockade is
//! killed, and then nothing runs, nothing is left, and a person is told what failed.

mod deaths;
#[path = "../leftovers/mod.rs"]
mod leftovers;
mod reduced;
mod refusals;
mod refusing;
