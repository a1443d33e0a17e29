//! The walls that run the component, end to end: the built binary with the component that
//! `cargo xtask component python` makes. See docs/testing.md.

mod artefacts;
mod contexts;
mod contract;
mod files;
mod leftovers;
mod limits;
#[cfg(feature = "hyperlight")]
mod machine;
mod network;
mod plans;
mod probes;
mod sessions;
mod support;
mod tools;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    // In the servers of the fake internet this does not return.
    let entered = stockade_internet::enter();
    let arguments = Arguments::from_args();
    support::begin(entered);
    let tests = [
        contract::tests(),
        limits::tests(),
        tools::tests(),
        network::tests(),
        files::tests(),
        sessions::tests(),
        contexts::tests(),
        plans::tests(),
        probes::tests(),
        artefacts::tests(),
        leftovers::tests(),
        #[cfg(feature = "hyperlight")]
        machine::tests(),
    ];
    libtest_mimic::run(&arguments, tests.into_iter().flatten().collect()).exit_code()
}
