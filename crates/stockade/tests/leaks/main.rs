//! Nothing is left: of many runs, of runs whose Stockade is killed, and in a process that runs many.

#[path = "../leftovers/mod.rs"]
mod leftovers;
mod deaths;
mod in_process;
mod many;
mod rounds;
mod terminal;
