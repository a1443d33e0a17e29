//! What the test targets of several crates share: the binary under test, missing parts of the
//! host, programs and their output, temporary directories, waiting for events.

#[cfg(feature = "engine")]
pub mod engine;
mod host;
#[cfg(feature = "image")]
pub mod image;
mod program;
#[cfg(feature = "sandbox")]
pub mod sandbox;
mod scratch;
mod wait;

pub use host::{examples, is_root, not_run, say, skipped, under_test, walls_can_be_built};
pub use program::{Conversation, Run, ended, finish, finish_with, processes, start};
pub use scratch::{Scratch, set_mode};
pub use wait::{DEADLINE, wait_for, within};
