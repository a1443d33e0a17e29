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
#[cfg(feature = "mcp")]
mod mcp;
mod pages;
mod policy;
mod problem;
mod render;
mod run;
mod sessions;
mod shell;
mod state;
#[cfg(feature = "top")]
mod top;
mod version;

use problem::Problem;

pub use invocation::Invocation;
pub use state::{
    Refusal, apply_checkpoint, checkpoint_store, checkpoint_store_params, differences,
};

/// The exit code of every error of Stockade itself.
const ERROR: u8 = 125;
