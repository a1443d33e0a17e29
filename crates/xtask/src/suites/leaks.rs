//! A thousand runs, ten concurrently, leave nothing on the host.

use std::path::Path;

use anyhow::Result;

use super::cargo::test_command;
use crate::program::finish;
use crate::suite::Outcome;

/// The prefix of the line that a skipped test prints.
const SKIPPED: &str = "run tests: skipped for want of ";

/// The leftover tests with all their rounds; the suite `tests` runs fewer.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let mut command = test_command(root);
    command.args(["--test", "leaks", "--quiet"]);
    command.env("STOCKADE_LONG", "1");
    let finished = finish(command)?;
    Ok(judge(finished.success, &finished.output))
}

fn judge(success: bool, output: &str) -> Outcome {
    match (success, output.lines().find_map(|line| line.strip_prefix(SKIPPED))) {
        (false, _) => Outcome::failed(output),
        (true, Some(reason)) => Outcome::skipped(reason),
        (true, None) => Outcome::passed("nothing left of 1000 runs, nor of those that were killed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_that_cannot_build_walls_is_skipped_and_not_passed() {
        let output = "running 8 tests\nrun tests: skipped for want of namespaces: no right\ntest result: ok.";
        assert_eq!(judge(true, output), Outcome::skipped("namespaces: no right"));
        assert_eq!(judge(false, output), Outcome::failed(output));
        assert!(matches!(judge(true, "test result: ok."), Outcome::Passed { .. }));
    }
}
