//! The container wall, end to end: the built binary with a real Docker engine, on runc and on
//! gVisor. See docs/testing.md.
//!
//! ```text
//! main ── starts an engine ──▶ this target again, on the fake internet: the tests
//!      ├─────────────────────▶ this target again, as it is: tests of images that change the
//!      │                       default of the engine, or come from a registry
//!      └─────────────────────▶ this target again, as it is: tests that restart the engine
//! ```
//! `STOCKADE_DOCKER=1 cargo test -p stockade --test docker hello` runs the tests with `hello` in
//! their names; without the variable nothing runs, because starting an engine takes long.

mod hardened;
mod images;
mod life;
mod mounts;
mod network;
mod pulls;
mod restart;
mod runs;
mod sessions;
mod state;
mod support;
mod trouble;
mod volumes;

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};
use stockade_testing::engine;

/// The variable that tells a child of this target which tests to run.
const PHASE: &str = "STOCKADE_DOCKER_PHASE";

/// How many tests run at once without `--test-threads`.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let phase = std::env::var(PHASE).unwrap_or_default();
    // In the servers of the fake internet this does not return.
    let entered = (phase == "tests").then(stockade_internet::enter);
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    match phase.as_str() {
        "tests" => {
            support::begin(entered);
            let mut tests = vec![runs::once(), trouble::tests(), images::once()];
            for runtime in support::runtimes() {
                tests.extend([
                    runs::tests(runtime),
                    network::tests(runtime),
                    mounts::tests(runtime),
                    life::tests(runtime),
                    images::tests(runtime),
                    state::tests(runtime),
                    sessions::tests(runtime),
                    volumes::tests(runtime),
                ]);
            }
            let tests = tests.into_iter().flatten().collect();
            let code = libtest_mimic::run(&arguments, tests).exit_code();
            images::forget_built();
            code
        }
        "images" => {
            let Some(_built) = hardened::Built::new() else { return ExitCode::FAILURE };
            let mut tests = vec![hardened::once(), pulls::once()];
            for runtime in support::runtimes() {
                tests.extend([hardened::tests(runtime), pulls::tests(runtime)]);
            }
            let tests = tests.into_iter().flatten().collect();
            let code = libtest_mimic::run(&arguments, tests).exit_code();
            images::forget_built();
            code
        }
        "restart" => {
            // Each test stops the engine.
            arguments.test_threads = Some(1);
            let code = libtest_mimic::run(&arguments, restart::tests()).exit_code();
            support::sweep();
            code
        }
        _ => whole(&arguments),
    }
}

/// Runs the phases, with an engine of this process unless the caller has one, and compares what the
/// engine has before and after.
fn whole(arguments: &Arguments) -> ExitCode {
    if std::env::var_os("STOCKADE_DOCKER").is_none() {
        stockade_testing::not_run("the suite docker sets STOCKADE_DOCKER and runs these tests");
        return ExitCode::SUCCESS;
    }
    let downloaded = images::download().map_err(|reason| ("docker", reason));
    let engine = downloaded.and_then(|()| match std::env::var_os(engine::DIRECTORY) {
        Some(_) => Ok(None),
        None => engine::Engine::start().map(Some),
    });
    match engine {
        Ok(engine) => phases(engine.as_ref()),
        Err((part, reason)) => {
            let skip = move || {
                stockade_testing::skipped(part, &reason);
                Ok(())
            };
            let tests = vec![Trial::test("container_tests_can_run_here", skip)];
            libtest_mimic::run(arguments, tests).exit_code()
        }
    }
}

/// Runs the phases with an engine of this process, or with that of the caller.
fn phases(own: Option<&engine::Engine>) -> ExitCode {
    let phase = |name: &str| {
        let this = std::env::current_exe().expect("a running program has a path");
        let mut command = Command::new(this);
        command.args(std::env::args_os().skip(1)).env(PHASE, name);
        command.envs(own.map(|engine| (engine::DIRECTORY, engine.directory())));
        command.status().is_ok_and(|status| status.success())
    };
    let directory = own.map_or_else(support::directory, |engine| engine.directory().to_owned());
    let before = support::Inventory::of(&directory);
    let passed = ["tests", "images", "restart"].map(phase);
    let is_clean = before.is_restored(&directory);
    match passed.iter().all(|passed| *passed) && is_clean {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
