//! Programs for the tests, and what is seen of them.

use std::time::Duration;

use stockade_provider::{
    EntryProgram, Execution, ProcessEnd, Program, Provider, Running, Sandbox, SandboxRequest, chain,
};
use tokio::io::AsyncReadExt;

use crate::support::{finished, native, shell};

pub(crate) fn bash(script: &str) -> Execution {
    let argv = ["bash", "-c", script].map(str::to_owned).to_vec();
    Execution::new(Program::Command { argv })
}

pub(crate) fn python(script: &str) -> Execution {
    let argv = ["python3", "-I", "-S", "-c", script].map(str::to_owned).to_vec();
    Execution::new(Program::Command { argv })
}

pub(crate) async fn sandbox_with(policy: &str) -> Box<dyn Sandbox> {
    let entry = EntryProgram::Program("sh".to_owned());
    let asked = SandboxRequest { entry, ..stockade_testing::sandbox::request(policy, None) };
    let sandbox = native().create(&asked).await;
    sandbox.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Starts a program and waits until it has printed `up`.
pub(crate) async fn up(sandbox: &dyn Sandbox, execution: Execution) -> Running {
    let mut running = sandbox.start(execution).await.unwrap();
    let mut line = [0; 3];
    running.stdout.read_exact(&mut line).await.expect("it prints that it is up");
    assert_eq!(&line, b"up\n");
    running
}

/// The names of all processes inside, as a program inside sees them.
pub(crate) async fn inside(sandbox: &dyn Sandbox) -> String {
    let list = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done";
    finished(sandbox.start(shell(list)).await.unwrap()).await.0
}

pub(crate) async fn has_hidden(sandbox: &dyn Sandbox) -> bool {
    inside(sandbox).await.lines().any(|line| line.starts_with("hidden "))
}

pub(crate) async fn end_of(running: Running) -> ProcessEnd {
    let ended = tokio::time::timeout(Duration::from_secs(20), running.end).await;
    ended.expect("it ends").unwrap()
}
