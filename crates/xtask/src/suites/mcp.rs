//! The MCP server with the packages of npm: the conformance suite, and a client.

use std::path::Path;

use anyhow::Result;

use super::cargo::test_command;
use crate::program::finish;
use crate::suite::Outcome;

/// The prefix of the line that a skipped test prints.
const SKIPPED: &str = "run tests: skipped for want of ";

/// The tests that the suite `tests` leaves out: they install packages of npm.
const TESTS: [&str; 2] = ["conformance::", "libraries::"];

pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let mut command = test_command(root);
    command.args(["--test", "mcp", "--quiet", "--"]);
    command.args(TESTS).env("STOCKADE_LONG", "1");
    let finished = finish(command)?;
    Ok(judge(finished.success, &finished.output))
}

fn judge(success: bool, output: &str) -> Outcome {
    match (success, output.lines().find_map(|line| line.strip_prefix(SKIPPED))) {
        (false, _) => Outcome::failed(output),
        (true, Some(reason)) => Outcome::skipped(reason),
        (true, None) if output.contains("3 passed") => {
            Outcome::passed("the conformance suite, and the clients of PyPI and npm")
        }
        (true, None) => Outcome::failed(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_that_skips_or_finds_no_test_is_not_passed() {
        let output = "run tests: skipped for want of node: npm is not installed\n3 passed";
        assert_eq!(judge(true, output), Outcome::skipped("node: npm is not installed"));
        assert_eq!(judge(false, output), Outcome::failed(output));
        assert_eq!(judge(true, "0 passed"), Outcome::failed("0 passed"));
        assert!(matches!(judge(true, "test result: ok. 3 passed"), Outcome::Passed { .. }));
    }
}
