//! The command line of Stockade as a library: its executable and the Python package call it.

mod args;
mod audit;
mod bench;
mod clock;
mod dispatch;
mod doctor;
mod image;
mod init;
mod invocation;
mod load;
mod pages;
mod policy;
mod problem;
mod render;
mod run;
mod sessions;
mod shell;
mod version;

use problem::Problem;

pub use invocation::Invocation;

/// The exit code of every error of Stockade itself.
const ERROR: u8 = 125;
