//! Running the binary under test, and what it leaves on the host.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The binary under test: another copy of it where a person without rights runs the tests.
pub(crate) fn binary() -> PathBuf {
    place("STOCKADE_UNDER_TEST", Path::new(env!("CARGO_BIN_EXE_stockade")))
}

/// The examples that come with Stockade.
pub(crate) fn examples() -> PathBuf {
    place("STOCKADE_EXAMPLES", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"))
}

fn place(variable: &str, otherwise: &Path) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| otherwise.to_owned(), PathBuf::from)
}

/// Whether this host lets Stockade build a wall at all. Where it does not, the tests say why they
/// do not run, or fail where `STOCKADE_REQUIRE` asks for them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let mut command = Command::new(binary());
        let run = finish(command.args(["run", "--no-record", "--", "true"]));
        (run.code != 0).then(|| run.stderr.trim().replace('\n', " "))
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}

/// Whether this host has Node, and npm with it. Where it does not, that is said.
pub(crate) fn has_node() -> bool {
    let missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    let missing = ["node", "npm"].into_iter().find(missing);
    if let Some(program) = missing {
        skipped("node", &format!("{program} is not installed"));
    }
    missing.is_none()
}

/// Says that a test does not run for want of a part of the host, or fails where that is required.
pub(crate) fn skipped(part: &str, reason: &str) {
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named = required.split(',').map(str::trim).any(|name| name == part || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    // Past the harness, which keeps the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "run tests: skipped for want of {part}: {reason}");
}

/// What a program printed and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its exit code, or 128 and the signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output of a program that must have ended well.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        &self.stdout
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// The lines of standard output of a program that must have ended well, each as JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.text().lines().map(read).collect()
    }
}

/// Runs a command to its end without input.
pub(crate) fn finish(command: &mut Command) -> Run {
    ended(start(command))
}

/// Starts a command with its output kept.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}

/// Waits for the end of a command.
pub(crate) fn ended(child: Child) -> Run {
    let output = child.wait_with_output().expect("the child can be waited for");
    let Output { status, stdout, stderr } = output;
    Run {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Waits until something is there.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The numbers in a file, once it is there and ends with a line end.
#[track_caller]
pub(crate) fn numbers(path: &Path) -> Vec<u32> {
    wait_for(&path.display().to_string(), || {
        let text = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?;
        text.split_whitespace().map(|word| word.parse().ok()).collect()
    })
}

/// Whether a process is there. One that nobody has reaped yet is not.
pub(crate) fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !stat.is_empty() && !matches!(state, Some('Z' | 'X'))
}

/// Waits until none of these processes is there.
#[track_caller]
pub(crate) fn wait_until_gone(processes: &[u32]) {
    let left = || processes.iter().filter(|process| is_alive(**process)).collect::<Vec<_>>();
    wait_for(&format!("the end of {processes:?}"), || left().is_empty().then_some(()));
}
