//! The container wall, end to end: the built binary with a real Docker engine, on runc and on
//! gVisor. See docs/testing.md.
//!
//! ```text
//! main ── starts an engine ──▶ this target again, on the fake internet: the tests
//!      └─────────────────────▶ this target again, as it is: tests that restart the engine
//! ```
//! `STOCKADE_DOCKER=1 cargo test -p stockade --test docker hello` runs the tests with `hello` in
//! their names; without the variable nothing runs, because starting an engine takes long.

mod engine;
mod images;
mod life;
mod network;
mod restart;
mod runs;
mod support;

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

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
            let mut tests = vec![runs::once(), images::once()];
            for runtime in support::runtimes() {
                tests.extend([runs::tests(runtime), network::tests(runtime), life::tests(runtime)]);
                tests.push(images::tests(runtime));
            }
            let tests = tests.into_iter().flatten().collect();
            libtest_mimic::run(&arguments, tests).exit_code()
        }
        "restart" => libtest_mimic::run(&arguments, restart::tests()).exit_code(),
        _ => whole(&arguments),
    }
}

/// Starts an engine, runs the phases, and stops it.
fn whole(arguments: &Arguments) -> ExitCode {
    if std::env::var_os("STOCKADE_DOCKER").is_none() {
        stockade_testing::not_run("the suite docker sets STOCKADE_DOCKER and runs these tests");
        return ExitCode::SUCCESS;
    }
    let engine = match engine::Engine::start() {
        Ok(engine) => engine,
        Err((part, reason)) => {
            let skip = move || {
                stockade_testing::skipped(part, &reason);
                Ok(())
            };
            let tests = vec![Trial::test("container_tests_can_run_here", skip)];
            return libtest_mimic::run(arguments, tests).exit_code();
        }
    };
    let phase = |name: &str| {
        let own = std::env::current_exe().expect("a running program has a path");
        let mut command = Command::new(own);
        command.args(std::env::args_os().skip(1)).env(PHASE, name);
        command.env(engine::DIRECTORY, engine.directory());
        command.status().is_ok_and(|status| status.success())
    };
    let passed = phase("tests");
    let passed = phase("restart") && passed;
    drop(engine);
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
