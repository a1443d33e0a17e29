//! The container wall with an engine of the suite's own, on runc and on gVisor: tests of this wall,
//! tests of the command line that hold behind any wall, and probes from inside.

mod portable;
mod probes;

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Result, anyhow};
use stockade_testing::engine::{self, Engine};

use super::cargo::{count_tests, failed_tests};
use super::stage::Stage;
use crate::program::{Finished, finish};
use crate::suite::Outcome;

const RUNTIMES: [&str; 2] = ["runc", "runsc"];

/// The targets that show, in every run with an engine, that this wall has the commands of sessions
/// and files. The others are in [`run_whole`].
const QUICK: [&str; 2] = ["sessions", "files"];

/// The tests of this wall on both runtimes, and the portable tests of sessions and files on runc.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    with_engine(root, &[&["docker"], &QUICK[..]].concat(), |stage, directory| {
        let mut own = Command::new(stage.place().join("docker"));
        own.env("STOCKADE_DOCKER", "1")
            .env("STOCKADE_UNDER_TEST", &stage.stockade)
            .env(engine::DIRECTORY, directory);
        Ok(vec![finish(own)?, portable::run(stage, directory, "runc", &QUICK)?])
    })
}

/// Every portable test and every probe, on both runtimes.
pub(crate) fn run_whole(root: &Path) -> Result<Outcome> {
    with_engine(
        root,
        &[&[portable::ALONE], &portable::TOGETHER[..]].concat(),
        |stage, directory| {
            let portable =
                |runtime: &str, targets: &[&str]| portable::run(stage, directory, runtime, targets);
            // Most of a test's time is waiting.
            let (runc, runsc) = thread::scope(|scope| {
                let runc = scope.spawn(|| portable("runc", &portable::TOGETHER));
                let runsc = portable("runsc", &portable::TOGETHER);
                (runc.join(), runsc)
            });
            let runc = runc.map_err(|_| anyhow!("the thread of the tests on runc panicked"))?;
            let mut parts = vec![runc?, runsc?];
            for runtime in RUNTIMES {
                // Alone: it changes the image. The probes compare the host before and after.
                parts.push(portable(runtime, &[portable::ALONE])?);
                parts.push(probes::run(root, directory, runtime)?);
            }
            Ok(parts)
        },
    )
}

/// Starts an engine, runs parts with it, and stops it.
fn with_engine(
    root: &Path,
    targets: &[&str],
    run: impl FnOnce(&Stage, &Path) -> Result<Vec<Finished>>,
) -> Result<Outcome> {
    if !engine::has("runsc") {
        return Ok(Outcome::skipped("gvisor: runsc is not installed"));
    }
    let engine = match Engine::start() {
        Ok(engine) => engine,
        Err((part, reason)) => return Ok(Outcome::skipped(format!("{part}: {reason}"))),
    };
    let stage = Stage::new(root, "docker", &["stockade", "stockade-backends"], targets)?;
    let parts = run(&stage, engine.directory())?;
    let success = parts.iter().all(|part| part.success);
    let output: String = parts.into_iter().map(|part| part.output).collect();
    Ok(judge(success, &output))
}

fn judge(success: bool, output: &str) -> Outcome {
    match (success, count_tests(output).passed) {
        (false, _) => Outcome::failed(format!("{}\n{output}", failed_tests(output))),
        (true, 0) => Outcome::failed("no test ran at all"),
        (true, passed) => {
            Outcome::passed(format!("{passed} tests on runc and on gVisor, and nothing is left"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_any_part_fails_the_suite_and_so_does_a_run_without_tests() {
        let output = "test a ... FAILED\ntest result: ok. 3 passed; 0 failed";
        assert_eq!(judge(false, output), Outcome::failed(format!("1 failed: a\n{output}")));
        assert!(matches!(judge(true, output), Outcome::Passed { .. }));
        assert_eq!(judge(true, ""), Outcome::failed("no test ran at all"));
    }
}
