//! Programs in a sandbox with tools, and what they said.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stockade_native::{NativeProvider, Surroundings, User};
use stockade_policy::Policy;
use stockade_provider::{
    Entry, Execution, Gateway, Language, ProcessEnd, Program, Provider, Root, Running, Sandbox,
    SandboxRequest, ToolAccess, chain,
};
use tokio::io::AsyncReadExt;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::broker::TestBroker;

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What every Python script begins with.
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

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What the sandboxes of these tests show of tools.
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

/// A sandbox for Python under a policy, with a broker.
pub(crate) fn request(policy: &str, broker: &TestBroker) -> SandboxRequest {
    let policy = Policy::parse_str("test", policy, Path::new("/")).unwrap();
    let gateway: Arc<dyn Gateway> = Arc::new(broker.clone());
    SandboxRequest {
        policy: Arc::new(policy),
        root: Root::Standard,
        entry: Entry::Interpreter(Language::Python),
        protected: Vec::new(),
        gateway: Some(gateway),
        tools: Some(tool_access()),
    }
}

pub(crate) async fn sandbox(request: &SandboxRequest) -> Result<Box<dyn Sandbox>, String> {
    native().create(request).await.map_err(|error| chain(&error))
}

pub(crate) fn python(script: &str) -> Program {
    Program::Code {
        language: Language::Python,
        name: "script.py".to_owned(),
        code: format!("{PRELUDE}{script}").into_bytes(),
        arguments: Vec::new(),
    }
}

pub(crate) fn shell(script: &str) -> Program {
    Program::Command { argv: ["sh", "-c", script].map(str::to_owned).to_vec() }
}

pub(crate) async fn start(sandbox: &mut Box<dyn Sandbox>, program: Program) -> Running {
    sandbox.start(Execution::new(program)).await.unwrap()
}

/// All that a program said on both streams until it ended well.
pub(crate) async fn finish(running: Running) -> String {
    let Running { mut stdout, mut stderr, end, stdin, .. } = running;
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    let all = async {
        tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err), end)
    };
    let (_, _, end) = timeout(LIMIT, all).await.expect("the program ends");
    assert_eq!(end.unwrap(), ProcessEnd::Exited { code: 0 }, "{out}{err}");
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

/// The same under no policy in particular, with a broker whose record is returned.
pub(crate) fn run(program: Program) -> (String, TestBroker) {
    let broker = TestBroker::default();
    (run_in(&request("{}", &broker), program), broker)
}

/// Whether this host lets a wall be built. Where it does not, the tests say why they do not run, or
/// fail where `STOCKADE_REQUIRE` asks for them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let plain =
            SandboxRequest { gateway: None, tools: None, ..request("{}", &TestBroker::default()) };
        runtime().block_on(async { sandbox(&plain).await.err() })
    });
    let Some(reason) = reason else { return true };
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named =
        required.split(',').map(str::trim).any(|name| name == "namespaces" || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    // Past the harness, which keeps the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "tool socket tests: skipped: {reason}");
    false
}

/// The native wall, with the host's usual places for interpreters.
fn native() -> NativeProvider {
    let path = Some("/usr/local/bin:/usr/bin:/bin".into());
    NativeProvider::new(User::Stays, Surroundings { path, ..Surroundings::default() })
}
