//! Running the binary under test.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a run of the binary printed and how it ended.
pub(crate) struct Run {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs `stockade` in the root of the repository.
pub(crate) fn stockade(args: &[&str]) -> Run {
    stockade_with_input(args, "")
}

/// Runs `stockade` with a text on standard input.
pub(crate) fn stockade_with_input(args: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stockade"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // A command that does not read its input may have ended before it is written.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let Output { status, stdout, stderr } =
        child.wait_with_output().expect("the child can be waited for");
    Run {
        code: status.code().expect("the program ends by itself"),
        stdout: String::from_utf8(stdout).expect("output is text"),
        stderr: String::from_utf8(stderr).expect("output is text"),
    }
}

/// A fresh directory that is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one; `name` must be unique among the tests of one binary.
    pub(crate) fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("stockade-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Scratch(path)
    }

    /// Writes a file in it and returns its path as text.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a temporary file can be written");
        path.to_str().expect("temporary paths are text").to_owned()
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left for the system's own cleaning of its temporary directory if it cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
