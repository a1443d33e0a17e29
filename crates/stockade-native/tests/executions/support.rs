//! Sandboxes without a policy of their own, and what programs print in them.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use stockade_native::{NativeProvider, Surroundings, User};
use stockade_policy::Policy;
use stockade_provider::{
    Entry, Error, Execution, ProcessEnd, Program, Provider, Root, Running, Sandbox, SandboxRequest,
    chain,
};
use tokio::io::AsyncReadExt;
use tokio::runtime::Runtime;

/// A runtime with two threads, as a server on a small machine has it.
pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime can be made")
}

pub(crate) fn native() -> NativeProvider {
    NativeProvider::new(User::Stays, Surroundings::default())
}

pub(crate) fn request() -> SandboxRequest {
    let policy = Policy::parse_str("test", "{}", Path::new("/"));
    SandboxRequest {
        policy: Arc::new(policy.expect("an empty policy takes every default")),
        root: Root::Standard,
        entry: Entry::Program("sh".to_owned()),
        protected: Vec::new(),
        gateway: None,
        tools: None,
    }
}

pub(crate) async fn sandbox() -> Box<dyn Sandbox> {
    native().create(&request()).await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// A shell command.
pub(crate) fn shell(script: &str) -> Execution {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Execution::new(Program::Command { argv })
}

/// What a program printed, and how it ended.
pub(crate) async fn finished(mut running: Running) -> (String, Result<ProcessEnd, Error>) {
    let mut text = String::new();
    running.stdout.read_to_string(&mut text).await.expect("the output is text");
    (text, running.end.await)
}

/// Whether this host lets a wall be built. Where it does not, the tests say why they do not run, or
/// fail where `STOCKADE_REQUIRE` asks for them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let built = runtime().block_on(async { native().create(&request()).await });
        built.err().map(|error| chain(&error))
    });
    let Some(reason) = reason else { return true };
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named =
        required.split(',').map(str::trim).any(|name| name == "namespaces" || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    // Past the harness, which keeps the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "tests of executions: skipped: {reason}");
    false
}
