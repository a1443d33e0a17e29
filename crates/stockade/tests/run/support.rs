//! Runs the binary under test, and programs without it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
pub(crate) use stockade_testing::{
    Conversation, Run, examples, finish, finish_with, is_root, not_run, processes, skipped, within,
};

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// Whether this host lets Stockade build a wall; see [`stockade_testing::walls_can_be_built`].
pub(crate) fn walls_can_be_built() -> bool {
    stockade_testing::walls_can_be_built(&binary())
}

/// `stockade run` with these arguments, not started yet.
pub(crate) fn command<W: AsRef<OsStr>>(words: &[W]) -> Command {
    let mut command = Command::new(binary());
    command.arg("run").args(words);
    command
}

/// Runs `stockade run` with these arguments.
pub(crate) fn stockade<W: AsRef<OsStr>>(words: &[W]) -> Run {
    let _share = share();
    finish(command(words))
}

/// Runs `stockade run --json` with these arguments; returns its exit code and its report.
pub(crate) fn report<W: AsRef<OsStr>>(words: &[W]) -> (i32, Value) {
    let _share = share();
    let mut command = Command::new(binary());
    command.args(["run", "--json"]).args(words);
    let run = finish(command);
    (run.code, run.json())
}

/// Runs a program without any wall.
pub(crate) fn outside<W: AsRef<OsStr>>(words: &[W]) -> Run {
    let (program, arguments) = words.split_first().expect("a program is named");
    let mut command = Command::new(program);
    command.args(arguments);
    let _share = share();
    finish(command)
}

/// Whether a report lists a limit as reached.
pub(crate) fn hits(report: &Value, limit: &str) -> bool {
    report["limits_hit"].as_array().is_some_and(|hit| hit.iter().any(|key| key == limit))
}

static QUIET: RwLock<()> = RwLock::new(());
thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Blocks the runs of other tests during a measurement.
pub(crate) struct Alone(
    #[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>,
);

/// Waits until no other test runs a program, and blocks new runs.
pub(crate) fn alone() -> Alone {
    let guard = QUIET.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    ALONE.set(true);
    Alone(guard)
}

impl Drop for Alone {
    fn drop(&mut self) {
        ALONE.set(false);
    }
}

fn share() -> Option<RwLockReadGuard<'static, ()>> {
    let read = || QUIET.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    (!ALONE.get()).then(read)
}
