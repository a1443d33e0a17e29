//! Runs the binary under test, and checks what it leaves on the host.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use stockade_testing::{
    DEADLINE, Run, ended, examples, finish, skipped, start, wait_for,
};

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// Whether this host lets Stockade build a wall; see [`stockade_testing::walls_can_be_built`].
pub(crate) fn walls_can_be_built() -> bool {
    stockade_testing::walls_can_be_built(&binary())
}

/// Whether this host has Node and npm. If not, reports a skip.
pub(crate) fn has_node() -> bool {
    let missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    let missing = ["node", "npm"].into_iter().find(missing);
    if let Some(program) = missing {
        skipped("node", &format!("{program} is not installed"));
    }
    missing.is_none()
}

/// The numbers in a file, once it exists and ends with a line end.
#[track_caller]
pub(crate) fn numbers(path: &Path) -> Vec<u32> {
    wait_for(&path.display().to_string(), || {
        let text = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?;
        text.split_whitespace().map(|word| word.parse().ok()).collect()
    })
}

/// Whether a process is running; a zombie is not.
pub(crate) fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !stat.is_empty() && !matches!(state, Some('Z' | 'X'))
}

/// Waits until all these processes are gone.
#[track_caller]
pub(crate) fn wait_until_gone(processes: &[u32]) {
    let left = || processes.iter().filter(|process| is_alive(**process)).collect::<Vec<_>>();
    wait_for(&format!("the end of {processes:?}"), || left().is_empty().then_some(()));
}
