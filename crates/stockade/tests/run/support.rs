//! Running the binary under test, and the same programs without it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

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

/// Whether the tests run with all rights.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this host lets Stockade build a wall at all. Where it does not, the tests say why they
/// do not run, or fail where `STOCKADE_REQUIRE` asks for them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let run = finish(command(&["--", "true"]), b"");
        (run.code != 0).then(|| run.stderr.trim().replace('\n', " "))
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}

/// Says that a test does not run for want of a part of the host, or fails where that is required.
pub(crate) fn skipped(part: &str, reason: &str) {
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named = required.split(',').map(str::trim).any(|name| name == part || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    // Past the harness, which keeps the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "run tests: skipped for want of {part}: {reason}");
}

/// Says that the rest of a test has no meaning for this user; the suites run it as another too.
pub(crate) fn not_run(reason: &str) {
    let _ = writeln!(std::io::stderr(), "run tests: not for this user: {reason}");
}

/// What a program printed and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its exit code, or 128 and the signal.
    pub(crate) code: i32,
    /// Standard output, as it is.
    pub(crate) bytes: Vec<u8>,
    /// Standard output as text.
    pub(crate) stdout: String,
    /// Standard error as text.
    pub(crate) stderr: String,
    /// From before its start to after its end.
    pub(crate) elapsed: Duration,
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Standard output of a program that must have ended well.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        &self.stdout
    }
}

/// `stockade run` with these words, not started yet.
pub(crate) fn command<W: AsRef<OsStr>>(words: &[W]) -> Command {
    let mut command = Command::new(binary());
    command.arg("run").args(words);
    command
}

/// Runs `stockade run` with these words.
pub(crate) fn stockade<W: AsRef<OsStr>>(words: &[W]) -> Run {
    let _share = share();
    finish(command(words), b"")
}

/// Runs `stockade run --json` with these words; its exit code and its report.
pub(crate) fn report<W: AsRef<OsStr>>(words: &[W]) -> (i32, Value) {
    let _share = share();
    let mut command = Command::new(binary());
    command.args(["run", "--json"]).args(words);
    let run = finish(command, b"");
    (run.code, run.json())
}

/// Runs a program without any wall.
pub(crate) fn outside<W: AsRef<OsStr>>(words: &[W]) -> Run {
    let (program, arguments) = words.split_first().expect("a program is named");
    let mut command = Command::new(program);
    command.args(arguments);
    let _share = share();
    finish(command, b"")
}

/// Runs a command to its end with an input.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Run {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_vec();
    // A program that does not read its input may have ended before it is written.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } =
        child.wait_with_output().expect("the child can be waited for");
    let elapsed = began.elapsed();
    writer.join().expect("writing does not panic");
    Run {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        bytes: stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        elapsed,
    }
}

/// Whether a report lists a limit as one that refused something.
pub(crate) fn hits(report: &Value, limit: &str) -> bool {
    report["limits_hit"].as_array().is_some_and(|hit| hit.iter().any(|key| key == limit))
}

/// A program that was started and talks over pipes; dropping it kills it.
pub(crate) struct Conversation(pub(crate) Child);

impl Conversation {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Conversation {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Conversation(command.spawn().expect("the program starts"))
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.0.stdin.as_mut().expect("standard input is piped");
        writeln!(stdin, "{line}").expect("the program takes a line");
    }

    /// The next line it prints; empty at its end.
    pub(crate) fn hear(&mut self) -> String {
        let stdout = self.0.stdout.as_mut().expect("standard output is piped");
        let mut line = Vec::new();
        let mut byte = [0];
        while stdout.read(&mut byte).expect("output can be read") == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).expect("output is text")
    }

    /// Ends its input and waits for its end.
    pub(crate) fn end(mut self) -> i32 {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("the child can be waited for");
        status.code().unwrap_or(-1)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds; false when it does not in time.
pub(crate) fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// Command lines of all processes of the host, words apart by blanks.
pub(crate) fn processes() -> Vec<String> {
    let read = |path: PathBuf| std::fs::read(path.join("cmdline")).ok();
    let entries = std::fs::read_dir("/proc").expect("processes can be listed");
    let lines = entries.flatten().filter_map(|entry| read(entry.path()));
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

static QUIET: RwLock<()> = RwLock::new(());
thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Holds back the runs of other tests while something is timed.
pub(crate) struct Alone(
    #[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>,
);

/// Waits until no other test runs a program, and lets none start.
pub(crate) fn alone() -> Alone {
    let guard = QUIET.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    ALONE.set(true);
    Alone(guard)
}

impl Drop for Alone {
    fn drop(&mut self) {
        ALONE.set(false);
    }
}

fn share() -> Option<RwLockReadGuard<'static, ()>> {
    let read = || QUIET.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    (!ALONE.get()).then(read)
}
