//! The checks that cargo itself offers: format, lints, tests.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::program::{cargo, finish};
use crate::suite::Outcome;

/// The suite `wasm` checks it: its engine takes minutes to build.
const LEFT_OUT: [&str; 4] = ["--exclude", "stockade-wasm", "--exclude", "stockade-hyperlight"];

/// The format of every source.
pub(crate) fn format(root: &Path) -> Result<Outcome> {
    run(root, &["fmt", "--all", "--check"], "cargo fmt --all --check")
}

/// The compiler's and clippy's lints; a warning is a failure.
pub(crate) fn lints(root: &Path) -> Result<Outcome> {
    let mut arguments = vec!["clippy", "--workspace"];
    arguments.extend(LEFT_OUT);
    arguments.extend(["--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]);
    run(root, &arguments, "no warning from clippy")
}

/// `cargo test` for the packages of the ordinary suites. Every suite builds its tests with these
/// words and chooses targets: for other packages cargo chooses other features, and builds the
/// dependencies again.
pub(super) fn test_command(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["test", "--workspace"]).args(LEFT_OUT).arg("--locked");
    command
}

/// The variable with proptest's seed.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// Every test of the workspace, documentation examples included.
pub(crate) fn tests(root: &Path) -> Result<Outcome> {
    let mut command = test_command(root);
    command.arg("--no-fail-fast");
    // A fixed seed, so that a failure is caused by the change under test. A plain `cargo test`
    // draws new random cases.
    if std::env::var_os(PROPERTY_SEED).is_none() {
        command.env(PROPERTY_SEED, "20261115");
    }
    let finished = finish(command)?;
    let count = count_tests(&finished.output);
    Ok(match (finished.success, count) {
        (false, _) => {
            Outcome::failed(format!("{}\n{}", failed_tests(&finished.output), finished.output))
        }
        (true, TestCount { passed: 0, .. }) => Outcome::failed("no test ran at all"),
        (true, TestCount { passed, ignored: 0 }) => Outcome::passed(format!("{passed} tests")),
        (true, TestCount { passed, ignored }) => {
            Outcome::passed(format!("{passed} tests, {ignored} ignored"))
        }
    })
}

fn run(root: &Path, arguments: &[&str], note: &str) -> Result<Outcome> {
    let mut command = cargo(root);
    command.args(arguments);
    let finished = finish(command)?;
    Ok(match finished.success {
        true => Outcome::passed(note),
        false => Outcome::failed(format!("cargo {}\n{}", arguments.join(" "), finished.output)),
    })
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TestCount {
    pub(super) passed: usize,
    pub(super) ignored: usize,
}

/// Adds up the `test result:` lines of all test executables.
pub(super) fn count_tests(output: &str) -> TestCount {
    let mut count = TestCount::default();
    for line in output.lines().filter(|line| line.starts_with("test result:")) {
        for part in line.split(['.', ';']) {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => count.passed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => count.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
    count
}

/// The names of the failed tests, or a note that no test result was printed.
pub(super) fn failed_tests(output: &str) -> String {
    let name = |line: &'_ str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.to_owned())
    };
    let names: Vec<String> = output.lines().filter_map(name).collect();
    match names.as_slice() {
        [] => "the tests do not build or did not end".to_owned(),
        names => format!("{} failed: {}", names.len(), names.join(", ")),
    }
}

#[cfg(test)]
mod tests_of_counting {
    use super::*;

    #[test]
    fn tests_of_all_executables_are_added() {
        let output = "\
test a ... ok
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s";
        assert_eq!(count_tests(output), TestCount { passed: 15, ignored: 1 });
    }

    #[test]
    fn failed_tests_are_named() {
        let output = "test a::b ... ok\ntest a::c ... FAILED\ntest d ... FAILED";
        assert_eq!(failed_tests(output), "2 failed: a::c, d");
        assert_eq!(failed_tests("error: x"), "the tests do not build or did not end");
    }
}
