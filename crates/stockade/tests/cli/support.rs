//! Running the binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use stockade_testing::{Run, Scratch};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `stockade` in the root of the repository.
pub(crate) fn stockade(args: &[&str]) -> Run {
    stockade_with_input(args, "")
}

/// Runs `stockade` with a text on standard input.
pub(crate) fn stockade_with_input(args: &[&str], input: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
    command.args(args).current_dir(root());
    stockade_testing::finish_with(command, input.as_bytes())
}
