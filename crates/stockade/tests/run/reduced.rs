//! The reduced wall: Landlock, seccomp and rlimits without namespaces. It can be asked for on every
//! host that has its parts, so most of this needs no host that forbids namespaces.

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

/// Where programs are that everybody may start: as root the wall runs as a user of its own, who
/// cannot enter root's home.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin";

/// What every run here is asked for with.
const ASKED: [&str; 4] = ["--provider", "reduced", "--isolation", "reduced"];

/// `stockade` with these words.
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

/// Runs something behind the reduced wall.
fn reduced<W: AsRef<OsStr>>(rest: &[W]) -> Run {
    finish(command(rest))
}

/// The same; its report.
fn report<W: AsRef<OsStr>>(rest: &[W]) -> Value {
    let mut command = words(&["run", "--json"]);
    command.args(ASKED).args(rest);
    finish(command).json()
}

/// Asks again for as long as the answer is that the host was too busy to tell.
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

/// Runs the same behind the reduced wall.
fn inside(options: &[&str], program: &str, arguments: &[&str]) -> Run {
    let start = ["--", "python3", "-c", program];
    reduced(&[options, &start, arguments].concat())
}

/// Whether this host has what the wall is made of. Where it has not, the tests say why they do not
/// run, or fail where `STOCKADE_REQUIRE` asks for them.
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
