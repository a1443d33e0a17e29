//! A file of 20 GB leaves a session in little memory.

use std::path::Path;

use anyhow::Result;

use super::cargo::test_command;
use crate::program::finish;
use crate::suite::Outcome;

/// The prefix of the line that a skipped test prints.
const SKIPPED: &str = "run tests: skipped for want of ";

/// The tests of large files with all their bytes; the suite `tests` copies 256 MB.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let mut command = test_command(root);
    command.args(["--test", "sessions", "--quiet"]);
    command.arg("large::").env("STOCKADE_LONG", "1");
    let finished = finish(command)?;
    Ok(judge(finished.success, &finished.output))
}

fn judge(success: bool, output: &str) -> Outcome {
    match (success, output.lines().find_map(|line| line.strip_prefix(SKIPPED))) {
        (false, _) => Outcome::failed(output),
        (true, Some(reason)) => Outcome::skipped(reason),
        (true, None) if output.contains("1 passed") => {
            Outcome::passed("20 GB copied out of a session, within 64 MB of memory")
        }
        (true, None) => Outcome::failed(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_without_walls_or_without_the_test_is_not_passed() {
        let output =
            "running 1 test\nrun tests: skipped for want of namespaces: no right\n1 passed";
        assert_eq!(judge(true, output), Outcome::skipped("namespaces: no right"));
        assert_eq!(judge(false, output), Outcome::failed(output));
        let none = "test result: ok. 0 passed; 50 filtered out";
        assert_eq!(judge(true, none), Outcome::failed(none));
        assert!(matches!(judge(true, "test result: ok. 1 passed"), Outcome::Passed { .. }));
    }
}
