//! Nothing is left after many runs, after Stockade is killed, and in a process with many sandboxes.

mod deaths;
mod in_process;
#[path = "../leftovers/mod.rs"]
mod leftovers;
mod many;
mod rounds;
mod terminal;
