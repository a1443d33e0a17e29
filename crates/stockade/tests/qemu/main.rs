//! The virtual machine wall, end to end: the built binary with a real QEMU, which translates. See
//! docs/testing.md.
//!
//! ```text
//! main ── builds the image once ──▶ this target again, on the fake internet: the tests
//! ```
//! `STOCKADE_QEMU=1 cargo test -p stockade --test qemu hello` runs the tests with `hello` in their
//! names; without the variable nothing runs, because each machine takes seconds to boot.

mod disk;
mod files;
mod images;
mod life;
mod network;
mod outputs;
mod runs;
mod saved;
mod state;
mod support;

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// The variable that tells a child of this target that it runs the tests.
const PHASE: &str = "STOCKADE_QEMU_PHASE";

fn main() -> ExitCode {
    let is_child = std::env::var_os(PHASE).is_some();
    // In the servers of the fake internet this does not return.
    let entered = is_child.then(stockade_internet::enter);
    let mut arguments = Arguments::from_args();
    // Some tests look for machines that are left.
    arguments.test_threads = Some(1);
    if is_child {
        support::begin(entered);
        let tests = [
            runs::tests(),
            saved::tests(),
            disk::tests(),
            files::tests(),
            outputs::tests(),
            state::tests(),
            network::tests(),
            images::tests(),
            life::tests(),
        ];
        let tests = tests.into_iter().flatten().collect();
        return libtest_mimic::run(&arguments, tests).exit_code();
    }
    if std::env::var_os("STOCKADE_QEMU").is_none() {
        stockade_testing::not_run("the suite qemu sets STOCKADE_QEMU and runs these tests");
        return ExitCode::SUCCESS;
    }
    // Before the fake internet, which has no packages.
    if let Err(reason) = support::build_image() {
        let skip = move || {
            stockade_testing::skipped("qemu", &reason);
            Ok(())
        };
        let tests = vec![Trial::test("machine_tests_can_run_here", skip)];
        return libtest_mimic::run(&arguments, tests).exit_code();
    }
    let this = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(this);
    command.args(std::env::args_os().skip(1)).env(PHASE, "tests");
    match command.status().is_ok_and(|status| status.success()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
