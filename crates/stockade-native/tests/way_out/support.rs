//! Code in a sandbox with a way out, and what it said.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stockade_native::{NativeProvider, Surroundings, User};
use stockade_policy::Policy;
use stockade_provider::{
    Entry, Error, Execution, Gateway, Language, ProcessEnd, Program, Provider, Root, Running,
    Sandbox, SandboxRequest, chain,
};
use tokio::io::AsyncReadExt;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::gateway::TestGateway;

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What every script begins with.
pub(crate) const PRELUDE: &str = "\
import socket, os, sys, threading, errno
def dial(address, port, family=socket.AF_INET):
    connection = socket.socket(family)
    connection.settimeout(20)
    connection.connect((address, port))
    return connection
def everything(connection):
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b''.join(pieces)
def exactly(connection, count):
    pieces = b''
    while len(pieces) < count and (piece := connection.recv(count - len(pieces))):
        pieces += piece
    return pieces
def refused(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return 'done'
";

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A sandbox for Python with a gateway or without.
pub(crate) async fn sandbox(
    policy: &str,
    gateway: Option<Arc<dyn Gateway>>,
) -> Result<Box<dyn Sandbox>, String> {
    let policy = Policy::parse_str("test", policy, Path::new("/")).unwrap();
    let provider = native();
    let request = request(Arc::new(policy), gateway);
    provider.create(&request).await.map_err(|error| chain(&error))
}

/// A request for such a sandbox.
pub(crate) fn request(policy: Arc<Policy>, gateway: Option<Arc<dyn Gateway>>) -> SandboxRequest {
    SandboxRequest {
        policy,
        root: Root::Standard,
        entry: Entry::Interpreter(Language::Python),
        protected: Vec::new(),
        gateway,
        tools: None,
    }
}

/// Starts a script.
pub(crate) async fn start(sandbox: &mut Box<dyn Sandbox>, script: &str) -> Running {
    try_start(&**sandbox, script).await.unwrap()
}

/// Starts a script, unless the sandbox refuses it.
pub(crate) async fn try_start(sandbox: &dyn Sandbox, script: &str) -> Result<Running, Error> {
    let code = format!("{PRELUDE}{script}").into_bytes();
    let program = Program::Code {
        language: Language::Python,
        name: "script.py".to_owned(),
        code,
        arguments: Vec::new(),
    };
    sandbox.start(Execution::new(program)).await
}

/// All that a script said until it ended well.
pub(crate) async fn finish(running: Running) -> String {
    let Running { mut stdout, mut stderr, end, stdin, .. } = running;
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    let all = async {
        tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err), end)
    };
    let (_, _, end) = timeout(LIMIT, all).await.expect("the script ends");
    assert_eq!(end.unwrap(), ProcessEnd::Exited { code: 0 }, "{out}{err}");
    out
}

/// Runs a script in a sandbox of its own with the test's gateway, and says what was opened.
pub(crate) fn run(script: &str) -> (String, TestGateway) {
    let gateway = TestGateway::default();
    let out = runtime().block_on(async {
        let mut sandbox = sandbox("{}", Some(Arc::new(gateway.clone()))).await.unwrap();
        let running = start(&mut sandbox, script).await;
        finish(running).await
    });
    (out, gateway)
}

/// Whether this host lets a wall with a way out be built. Where it does not, the tests say why they
/// do not run, or fail where `STOCKADE_REQUIRE` asks for them.
pub(crate) fn way_out_can_be_made() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let gateway = Arc::new(TestGateway::default());
        runtime().block_on(async { sandbox("{}", Some(gateway)).await.err() })
    });
    let Some(reason) = reason else { return true };
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named =
        required.split(',').map(str::trim).any(|name| name == "namespaces" || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    // Past the harness, which keeps the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "way out tests: skipped: {reason}");
    false
}

/// The native wall, with the host's usual places for interpreters.
pub(crate) fn native() -> NativeProvider {
    let path = Some("/usr/local/bin:/usr/bin:/bin".into());
    NativeProvider::new(User::Stays, Surroundings { path, ..Surroundings::default() })
}
