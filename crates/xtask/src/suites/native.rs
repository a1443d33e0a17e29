//! The tests of real walls as an unprivileged user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::cargo::{count_tests, failed_tests};
use super::stage::{NOBODY, Stage};
use crate::program::finish;
use crate::suite::Outcome;

/// The test targets that build walls: those of the command line, of the native wall, and of all
/// walls.
const TARGETS: [&str; 16] = [
    "run",
    "commands",
    "doctor",
    "executions",
    "faults",
    "files",
    "images",
    "leaks",
    "leaves",
    "mcp",
    "network",
    "record",
    "sessions",
    "tool_socket",
    "tools",
    "egress",
];

/// The prefix of the line with which the tests report why none of them ran.
const NO_WALLS: &str = "run tests: skipped for want of namespaces: ";

/// Runs the tests again as user 65534, if this user is root.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let is_root = fs::metadata("/proc/self").context("cannot tell who runs this")?.uid() == 0;
    if !is_root {
        return Ok(Outcome::passed("the suite tests ran them as an ordinary user"));
    }
    let packages = ["stockade", "stockade-backends", "stockade-native"];
    let stage = Stage::new(root, "native", &packages, &TARGETS)?;
    let (mut success, mut output) = (true, String::new());
    for target in TARGETS {
        let finished = finish(stage.command(target))?;
        success &= finished.success;
        output.push_str(&finished.output);
    }
    Ok(judge(success, &output))
}

fn judge(success: bool, output: &str) -> Outcome {
    if !success {
        return Outcome::failed(format!("{}\n{output}", failed_tests(output)));
    }
    if let Some(reason) = output.lines().find_map(|line| line.split_once(NO_WALLS)) {
        return Outcome::skipped(reason.1);
    }
    match count_tests(output).passed {
        0 => Outcome::failed("no test ran at all"),
        passed => Outcome::passed(format!("{passed} tests as user {NOBODY}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_without_walls_are_skipped_with_their_reason() {
        let result = "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured";
        let passed = Outcome::passed("7 tests as user 65534");
        assert_eq!(judge(true, result), passed);
        let skipped = format!("{NO_WALLS}error: no namespaces\n{result}");
        assert_eq!(judge(true, &skipped), Outcome::skipped("error: no namespaces"));
        assert!(matches!(judge(false, &skipped), Outcome::Failed { .. }));
        assert_eq!(judge(true, ""), Outcome::failed("no test ran at all"));
    }
}
