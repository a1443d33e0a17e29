//! Sandboxes and programs.

use std::path::Path;
use std::sync::Arc;

use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, Error, Execution, Language, ProcessEnd, Program, Provider, Root, Running,
    Sandbox, SandboxRequest,
};
use stockade_wasm::WasmProvider;
use tokio::io::AsyncReadExt;

/// A program's output and end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: ProcessEnd,
    pub(crate) stdout: String,
}

pub(crate) fn request(policy: &str) -> SandboxRequest {
    SandboxRequest {
        policy: Arc::new(Policy::parse_str("p", policy, Path::new("/")).unwrap()),
        root: Root::Standard,
        entry: EntryProgram::Interpreter(Language::Python),
        protected: Vec::new(),
        gateway: None,
        tools: None,
        authorities: None,
    }
}

/// A sandbox with a policy.
pub(crate) async fn sandbox(policy: &str) -> Box<dyn Sandbox> {
    let provider = WasmProvider::new();
    provider.prepare().await.expect("`cargo xtask component python` has built the component");
    provider.create(&request(policy)).await.unwrap()
}

pub(crate) fn python(code: &str) -> Execution {
    Execution::new(Program::Code {
        language: Language::Python,
        name: "test.py".to_owned(),
        code: code.as_bytes().to_vec(),
        arguments: Vec::new(),
    })
}

pub(crate) async fn start(sandbox: &dyn Sandbox, code: &str) -> Result<Running, Error> {
    sandbox.start(python(code)).await
}

/// Reads a program's output to its end.
pub(crate) async fn finish(running: Running) -> Ran {
    let Running { mut stdout, stdin, end, .. } = running;
    drop(stdin);
    let mut out = String::new();
    let (_, end) = tokio::join!(stdout.read_to_string(&mut out), end);
    Ran { end: end.unwrap(), stdout: out }
}

pub(crate) async fn run(sandbox: &dyn Sandbox, code: &str) -> Ran {
    finish(start(sandbox, code).await.unwrap()).await
}
