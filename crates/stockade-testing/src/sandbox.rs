//! Programs in a sandbox of the Rust API.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, Gateway, Language, ProcessEnd, Program, Root, Running, SandboxRequest,
};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// A runtime with two worker threads.
pub fn runtime() -> Runtime {
    let built = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.expect("a runtime can be built")
}

/// A request for a sandbox that runs Python, with a gateway or without.
pub fn request(policy: &str, gateway: Option<Arc<dyn Gateway>>) -> SandboxRequest {
    let policy = Policy::parse_str("test", policy, Path::new("/")).expect("the policy is valid");
    SandboxRequest {
        policy: Arc::new(policy),
        root: Root::Standard,
        entry: EntryProgram::Interpreter(Language::Python),
        protected: Vec::new(),
        gateway,
        tools: None,
        authorities: None,
    }
}

/// A Python script.
pub fn python(script: String) -> Program {
    Program::Code {
        language: Language::Python,
        name: "script.py".to_owned(),
        code: script.into_bytes(),
        arguments: Vec::new(),
    }
}

/// Waits for a program without input that must end with exit code 0 in time, and returns what it
/// printed on standard output and standard error.
pub async fn finish(running: Running, limit: Duration) -> (String, String) {
    let Running { mut stdout, mut stderr, end, stdin, .. } = running;
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    let all = async {
        tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err), end)
    };
    let (_, _, end) = timeout(limit, all).await.expect("the program ends");
    let end = end.expect("the sandbox reports the end");
    assert_eq!(end, ProcessEnd::Exited { code: 0 }, "{out}{err}");
    (out, err)
}
