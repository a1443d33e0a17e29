//! The tests of the WebAssembly wall: they need the component, and a build with its feature.

use std::path::Path;

use anyhow::Result;

use super::cargo::{count_tests, failed_tests};
use crate::component::{self, ComponentOptions};
use crate::program::{cargo, finish, on_path};
use crate::suite::Outcome;

/// The tests of the walls that run the component. Every suite builds them with these words: another
/// choice of packages would build the engine again.
pub(super) const TESTS: [&str; 8] = [
    "--package=stockade",
    "--package=stockade-wasm",
    "--package=stockade-hyperlight",
    "--package=stockade-backends",
    "--features=stockade/hyperlight",
    "--lib",
    "--test=wasm",
    "--test=wall",
];

/// What the ordinary suites leave out.
const LINTS: [&[&str]; 2] = [
    &[
        "clippy",
        "-p",
        "stockade",
        "--features",
        "hyperlight",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ],
    &[
        "clippy",
        "-p",
        "stockade-wasm",
        "-p",
        "stockade-hyperlight",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ],
];

/// Builds the component, then the crates with the feature, and runs their tests of this wall.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if std::env::consts::ARCH != "x86_64" {
        return Ok(Outcome::skipped("components are built on x86_64 only"));
    }
    if on_path(&["python3"]).is_none() {
        return Ok(Outcome::skipped("no python3; apt install python3-venv"));
    }
    component::build(root, &ComponentOptions::python())?;
    let (mut passed, mut output, mut success) = (0, String::new(), true);
    let mut tests = cargo(root);
    tests.args(["test", "--no-fail-fast"]).args(TESTS);
    let lints = LINTS.map(|words| {
        let mut command = cargo(root);
        command.args(words);
        command
    });
    for command in std::iter::once(tests).chain(lints) {
        let finished = finish(command)?;
        success &= finished.success;
        passed += count_tests(&finished.output).passed;
        output.push_str(&finished.output);
    }
    if !success {
        return Ok(Outcome::failed(format!("{}\n{output}", failed_tests(&output))));
    }
    match passed {
        0 => Ok(Outcome::failed("no test ran at all")),
        passed => Ok(Outcome::passed(format!("{passed} tests"))),
    }
}
