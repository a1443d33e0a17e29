//! Scripts in a sandbox with egress, and their output.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stockade_native::{HostProcess, NativeProvider, Surroundings};
use stockade_provider::{Error, Execution, Gateway, Provider, Running, Sandbox, chain};
use stockade_testing::sandbox::python;
pub(crate) use stockade_testing::sandbox::{request, runtime};
use stockade_testing::skipped;

use crate::gateway::TestGateway;

/// The timeout of every wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The start of every script.
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

/// A sandbox for Python with or without a gateway.
pub(crate) async fn sandbox(
    policy: &str,
    gateway: Option<Arc<dyn Gateway>>,
) -> Result<Box<dyn Sandbox>, String> {
    native().create(&request(policy, gateway)).await.map_err(|error| chain(&error))
}

/// Starts a script.
pub(crate) async fn start(sandbox: &mut Box<dyn Sandbox>, script: &str) -> Running {
    try_start(&**sandbox, script).await.unwrap()
}

/// Starts a script; fails if the sandbox refuses it.
pub(crate) async fn try_start(sandbox: &dyn Sandbox, script: &str) -> Result<Running, Error> {
    let program = python(format!("{PRELUDE}{script}"));
    sandbox.start(Execution::new(program)).await
}

/// The output of a script, after a successful end.
pub(crate) async fn finish(running: Running) -> String {
    stockade_testing::sandbox::finish(running, LIMIT).await.0
}

/// Runs a script in its own sandbox with the test gateway, and returns the output and the gateway.
pub(crate) fn run(script: &str) -> (String, TestGateway) {
    let gateway = TestGateway::default();
    let out = runtime().block_on(async {
        let mut sandbox = sandbox("{}", Some(Arc::new(gateway.clone()))).await.unwrap();
        let running = start(&mut sandbox, script).await;
        finish(running).await
    });
    (out, gateway)
}

/// Whether this host allows a wall with egress. If not, the tests print why they do not run, or
/// fail if `STOCKADE_REQUIRE` requires them.
pub(crate) fn egress_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let gateway = Arc::new(TestGateway::default());
        runtime().block_on(async { sandbox("{}", Some(gateway)).await.err() })
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}

/// The native wall, with the host's usual interpreter directories.
pub(crate) fn native() -> NativeProvider {
    let path = Some("/usr/local/bin:/usr/bin:/bin".into());
    NativeProvider::new(HostProcess::Continues, Surroundings { path, ..Surroundings::default() })
}
