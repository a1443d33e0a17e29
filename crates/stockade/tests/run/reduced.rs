//! The reduced wall: Landlock, seccomp and rlimits without namespaces. It can be requested on every
//! host with these features, so most tests need no host that forbids namespaces.

mod canaries;
mod changes;
mod clauses;
mod ends;
mod forbidden;
mod limits;
mod runs;

use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Run, binary, finish, skipped};

/// Directories of programs that every user may start: as root the sandbox has its own user id,
/// which cannot enter root's home.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin";

/// The flags of every run in these tests.
const ASKED: [&str; 4] = ["--provider", "reduced", "--isolation", "reduced"];

/// `stockade` with these arguments, not started yet.
fn words<W: AsRef<OsStr>>(words: &[W]) -> Command {
    let mut command = Command::new(binary());
    command.args(words).env("PATH", PROGRAMS);
    command
}

/// `stockade run` behind the reduced wall, not started yet.
fn command<W: AsRef<OsStr>>(rest: &[W]) -> Command {
    let mut command = words(&["run"]);
    command.args(ASKED).args(rest);
    command
}

/// Runs a program behind the reduced wall.
fn reduced<W: AsRef<OsStr>>(rest: &[W]) -> Run {
    finish(command(rest))
}

/// Runs a program behind the reduced wall and returns its report.
fn report<W: AsRef<OsStr>>(rest: &[W]) -> Value {
    let mut command = words(&["run", "--json"]);
    command.args(ASKED).args(rest);
    finish(command).json()
}

/// Repeats `ask` while Stockade reports that the host may be too busy for its checks.
fn patiently(ask: impl Fn() -> Run) -> Run {
    let is_told = |run: &Run| !run.stdout.contains("see whether the host is overloaded");
    (0..20).map(|_| ask()).find(is_told).expect("the host is not too busy for ever")
}

/// Runs a Python program without any wall.
fn outside(program: &str, arguments: &[&str]) -> Run {
    let mut command = Command::new("python3");
    command.args(["-c", program]).args(arguments).env("PATH", PROGRAMS);
    finish(command)
}

/// Runs a Python program behind the reduced wall.
fn inside(options: &[&str], program: &str, arguments: &[&str]) -> Run {
    let start = ["--", "python3", "-c", program];
    reduced(&[options, &start, arguments].concat())
}

/// Whether this host can build the reduced wall. If not, the tests print why they are skipped, or
/// fail if `STOCKADE_REQUIRE` requires them.
pub(crate) fn can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let run = reduced(&["--", "true"]);
        (run.code != 0).then(|| run.stderr.trim().replace('\n', " "))
    });
    let Some(reason) = reason else { return true };
    skipped("landlock", reason);
    false
}
