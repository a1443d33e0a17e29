//! The container wall with an engine of the suite's own, on runc and on gVisor.

use std::path::Path;

use anyhow::Result;

use crate::program::{cargo, finish};
use crate::suite::Outcome;

/// The prefix of the line that a skipped test prints.
const SKIPPED: &str = "run tests: skipped for want of ";

/// Runs the test target `docker`, which starts an engine and stops it.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let mut command = cargo(root);
    command.args(["test", "--package", "stockade", "--test", "docker", "--locked", "--quiet"]);
    command.env("STOCKADE_DOCKER", "1");
    let finished = finish(command)?;
    Ok(judge(finished.success, &finished.output))
}

fn judge(success: bool, output: &str) -> Outcome {
    match (success, output.lines().find_map(|line| line.strip_prefix(SKIPPED))) {
        (false, _) => Outcome::failed(output),
        (true, Some(reason)) => Outcome::skipped(reason),
        (true, None) => {
            Outcome::passed("containers ran on runc and on gVisor, and nothing is left")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_without_an_engine_or_gvisor_is_skipped_and_not_passed() {
        for reason in ["docker: dockerd is not installed", "gvisor: runsc is not installed"] {
            let output = format!("running 1 test\n{SKIPPED}{reason}\ntest result: ok.");
            assert_eq!(judge(true, &output), Outcome::skipped(reason));
            assert_eq!(judge(false, &output), Outcome::failed(&output));
        }
        assert!(matches!(judge(true, "test result: ok."), Outcome::Passed { .. }));
    }
}
