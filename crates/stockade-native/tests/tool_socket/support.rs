//! Programs in a sandbox with tools, and their output.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stockade_native::{HostProcess, NativeProvider, Surroundings};
use stockade_provider::{
    Execution, Program, Provider, Running, Sandbox, SandboxRequest, ToolAccess, chain,
};
pub(crate) use stockade_testing::sandbox::runtime;
use stockade_testing::skipped;

use crate::broker::TestBroker;

/// The timeout of every wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The start of every Python script.
const PRELUDE: &str = "\
import socket, os, sys, errno, json
def dial(path='/run/stockade/tools.sock'):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.settimeout(50)
    return connection
def ask(connection, request):
    connection.sendall(json.dumps(request).encode() + b'\\n')
ahead = {}
def hear(connection):
    pieces = [ahead.pop(connection.fileno(), b'')]
    while b'\\n' not in pieces[-1]:
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        pieces.append(piece)
    line, rest = b''.join(pieces).split(b'\\n', 1)
    if rest:
        ahead[connection.fileno()] = rest
    return json.loads(line)
def call(name, **arguments):
    connection = dial()
    ask(connection, {'id': 7, 'call': name, 'arguments': arguments})
    return hear(connection)
def refused(act, *words):
    try:
        act(*words)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return 'done'
";

/// The tool files and variables of these tests.
pub(crate) fn tool_access() -> ToolAccess {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    ToolAccess {
        files: vec![
            ("tools.json".to_owned(), b"[\"echo\"]".to_vec()),
            ("python/deep/er.py".to_owned(), b"answer = 42\n".to_vec()),
        ],
        environment: vec![own("STOCKADE_TEST_OF_TOOLS", "told"), own("HOME", "/never")],
    }
}

/// A request for Python under a policy, with a broker.
pub(crate) fn request(policy: &str, broker: &TestBroker) -> SandboxRequest {
    let request = stockade_testing::sandbox::request(policy, Some(Arc::new(broker.clone())));
    SandboxRequest { tools: Some(tool_access()), ..request }
}

pub(crate) async fn sandbox(request: &SandboxRequest) -> Result<Box<dyn Sandbox>, String> {
    native().create(request).await.map_err(|error| chain(&error))
}

pub(crate) fn python(script: &str) -> Program {
    stockade_testing::sandbox::python(format!("{PRELUDE}{script}"))
}

pub(crate) fn shell(script: &str) -> Program {
    Program::Command { argv: ["sh", "-c", script].map(str::to_owned).to_vec() }
}

pub(crate) async fn start(sandbox: &mut Box<dyn Sandbox>, program: Program) -> Running {
    sandbox.start(Execution::new(program)).await.unwrap()
}

/// The output of a program on both streams, after a successful end.
pub(crate) async fn finish(running: Running) -> String {
    let (out, err) = stockade_testing::sandbox::finish(running, LIMIT).await;
    out + &err
}

/// Runs a program in a sandbox of its own.
pub(crate) fn run_in(request: &SandboxRequest, program: Program) -> String {
    runtime().block_on(async {
        let mut sandbox = sandbox(request).await.unwrap();
        let running = start(&mut sandbox, program).await;
        finish(running).await
    })
}

/// Runs a program under the default policy, and returns the broker with its record.
pub(crate) fn run(program: Program) -> (String, TestBroker) {
    let broker = TestBroker::default();
    (run_in(&request("{}", &broker), program), broker)
}

/// Whether this host allows a wall. If not, the tests print why they do not run, or fail if
/// `STOCKADE_REQUIRE` requires them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let plain =
            SandboxRequest { gateway: None, tools: None, ..request("{}", &TestBroker::default()) };
        runtime().block_on(async { sandbox(&plain).await.err() })
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}

/// The native wall, with the host's usual interpreter directories.
fn native() -> NativeProvider {
    let path = Some("/usr/local/bin:/usr/bin:/bin".into());
    NativeProvider::new(HostProcess::Continues, Surroundings { path, ..Surroundings::default() })
}
