//! The network gate, end to end: real programs in real sandboxes on a fake internet that logs every
//! request and packet. See docs/verification.md.
//!
//! `cargo test -p stockade --test network h05` runs the tests with `h05` in their names.

mod addresses;
mod bypass;
mod clients;
mod conversation;
mod ends;
mod limits;
mod opened;
mod proxy;
mod records;
mod rules;
mod socks;
mod support;
mod tls;
mod ways;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// How many tests run at once without `--test-threads`.
const THREADS: usize = 4;

fn main() -> ExitCode {
    // Before entering the fake internet: the client packages come from the real one.
    let packages = clients::install_packages();
    let entered = stockade_internet::enter();
    let mut arguments = Arguments::from_args();
    // Most of a test's time is waiting.
    arguments.test_threads.get_or_insert(THREADS);
    let tests = match support::begin(entered, packages) {
        Ok(()) => [
            ways::tests(),
            clients::tests(),
            bypass::tests(),
            proxy::tests(),
            socks::tests(),
            addresses::tests(),
            tls::tests(),
            rules::tests(),
            limits::tests(),
            opened::tests(),
            records::tests(),
            ends::tests(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Err((part, reason)) => {
            vec![Trial::test("network_tests_can_run_here", move || {
                support::skipped(part, &reason);
                Ok(())
            })]
        }
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}
