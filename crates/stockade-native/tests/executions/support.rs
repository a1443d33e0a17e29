//! Sandboxes with the default policy, and the output of programs in them.

use std::sync::OnceLock;

use stockade_native::{HostProcess, NativeProvider, Surroundings};
use stockade_provider::{
    EntryProgram, Error, Execution, ProcessEnd, Program, Provider, Running, Sandbox,
    SandboxRequest, chain,
};
pub(crate) use stockade_testing::sandbox::runtime;
use stockade_testing::skipped;
use tokio::io::AsyncReadExt;

pub(crate) fn native() -> NativeProvider {
    NativeProvider::new(HostProcess::Continues, Surroundings::default())
}

pub(crate) fn request() -> SandboxRequest {
    let entry = EntryProgram::Program("sh".to_owned());
    SandboxRequest { entry, ..stockade_testing::sandbox::request("{}", None) }
}

pub(crate) async fn sandbox() -> Box<dyn Sandbox> {
    native().create(&request()).await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// A shell command.
pub(crate) fn shell(script: &str) -> Execution {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Execution::new(Program::Command { argv })
}

/// The output of a program, and how it ended.
pub(crate) async fn finished(mut running: Running) -> (String, Result<ProcessEnd, Error>) {
    let mut text = String::new();
    running.stdout.read_to_string(&mut text).await.expect("the output is text");
    (text, running.end.await)
}

/// Whether cgroups count each execution of a sandbox that has started one already.
pub(crate) async fn are_counted(sandbox: &dyn Sandbox) -> bool {
    let running = sandbox.start(shell("true")).await.expect("the sandbox runs programs");
    let control = std::sync::Arc::clone(&running.control);
    finished(running).await.1.expect("the program ends");
    control.observe().await.cpu_time.is_some()
}

/// Whether this host allows a wall. If not, the tests print why they do not run, or fail if
/// `STOCKADE_REQUIRE` requires them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let built = runtime().block_on(async { native().create(&request()).await });
        built.err().map(|error| chain(&error))
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}
