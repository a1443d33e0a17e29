//! Runs with their own directory for records.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stockade_testing::Scratch;
pub(crate) use stockade_testing::{Run, finish, not_run};

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// Whether this host lets Stockade build a wall; see [`stockade_testing::walls_can_be_built`].
pub(crate) fn walls_can_be_built() -> bool {
    stockade_testing::walls_can_be_built(&binary())
}

/// A directory for records, removed on drop.
pub(crate) struct Records(Scratch);

impl Records {
    pub(crate) fn new() -> Records {
        Records(Scratch::new())
    }

    /// A scratch directory for any purpose.
    pub(crate) fn scratch(&self) -> &Path {
        self.0.path()
    }

    /// Where the records are.
    pub(crate) fn path(&self) -> PathBuf {
        self.scratch().join("records")
    }

    /// A `stockade` command with its records in this directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        let (first, rest) = words.split_first().expect("a command is named");
        command.arg(first).arg("--record").arg(self.path()).args(rest).stdin(Stdio::null());
        command
    }

    /// Runs `stockade` with its records in this directory.
    pub(crate) fn stockade(&self, words: &[&str]) -> Run {
        finish(&mut self.command(words))
    }

    /// Runs `stockade audit` with these arguments.
    pub(crate) fn audit(&self, words: &[&str]) -> Run {
        self.stockade(&[&["audit"], words].concat())
    }

    /// The record files, oldest first.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }
}
