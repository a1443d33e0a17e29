//! Runs with a record of their own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The binary under test: another copy of it where a person without rights runs the tests.
pub(crate) fn binary() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_stockade"));
    std::env::var_os("STOCKADE_UNDER_TEST").map_or_else(built, PathBuf::from)
}

/// A directory for records, gone with this value.
pub(crate) struct Records(PathBuf);

impl Records {
    pub(crate) fn new() -> Records {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("stockade-record-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a temporary directory can be made");
        Records(path.canonicalize().expect("it has a real path"))
    }

    /// A directory that is there for anything.
    pub(crate) fn scratch(&self) -> &Path {
        &self.0
    }

    /// Where the records are.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.join("records")
    }

    /// `stockade` with words, its records here, not started yet.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        let (first, rest) = words.split_first().expect("a command is named");
        command.arg(first).arg("--record").arg(self.path()).args(rest).stdin(Stdio::null());
        command
    }

    /// Runs `stockade` with words, its records here.
    pub(crate) fn stockade(&self, words: &[&str]) -> Run {
        finish(&mut self.command(words))
    }

    /// Runs `stockade audit` with words.
    pub(crate) fn audit(&self, words: &[&str]) -> Run {
        self.stockade(&[&["audit"], words].concat())
    }

    /// The files of the records, oldest first.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // Left for the system's own cleaning of its temporary directory if it cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a run of the binary printed and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().expect("the program starts");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Whether this host lets `stockade run` build a wall. Where it does not, the tests say why they
/// do not run, or fail where `STOCKADE_REQUIRE` asks for them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let run = finish(Command::new(binary()).args(["run", "--no-record", "--", "true"]));
        (run.code != Some(0)).then_some(run.stderr)
    });
    let Some(reason) = reason else { return true };
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named = required.split(',').any(|name| matches!(name.trim(), "namespaces" | "all"));
    assert!(!named, "required, but skipped: {reason}");
    // Past the harness, which keeps the output of tests that pass.
    let _ = writeln!(std::io::stderr(), "run tests: skipped for want of namespaces: {reason}");
    false
}

/// Says that a test has no meaning for this user; the suites run it as another too.
pub(crate) fn not_run(reason: &str) {
    let _ = writeln!(std::io::stderr(), "run tests: not for this user: {reason}");
}
