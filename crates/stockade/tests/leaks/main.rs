//! Nothing is left: of many runs, of runs whose Stockade is killed, and in a process that runs many.

mod deaths;
mod in_process;
#[path = "../leftovers/mod.rs"]
mod leftovers;
mod many;
mod rounds;
mod terminal;
