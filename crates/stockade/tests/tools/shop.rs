//! A host directory with tools, policies and records, and programs in sandboxes that call the
//! tools.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Run, binary, finish};

/// Two tools that are commands: one counts words, the other misbehaves on request.
const TOOLS: &str = include_str!("programs/tools.yaml");
const COUNT: &str = include_str!("programs/count.py");
const DO: &str = include_str!("programs/do.py");

/// A Python module for the raw tool socket: `exchange(bytes)` returns the response lines until the
/// connection closes or all expected ones have come.
const RAW: &str = include_str!("programs/raw.py");

pub(crate) struct Shop {
    folder: TempDir,
    flags: Vec<String>,
}

impl Shop {
    /// A shop with the two commands.
    pub(crate) fn new() -> Shop {
        Shop::with(TOOLS)
    }

    /// A shop with these tools.
    pub(crate) fn with(tools: &str) -> Shop {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).expect("the directory is ours");
        let mut shop = Shop { folder, flags: Vec::new() };
        let tools = shop.file("tools.yaml", tools);
        shop.file("count.py", COUNT);
        shop.file("do.py", DO);
        let records = shop.path("records").to_str().expect("the path is text").to_owned();
        shop.flags = vec!["--record".to_owned(), records, "--tools".to_owned(), tools];
        shop
    }

    /// Sets a policy for all its runs.
    pub(crate) fn policy(mut self, policy: &str) -> Shop {
        let file = self.file("policy.yaml", policy);
        self.flags.extend(["--policy".to_owned(), file]);
        self
    }

    /// A path in its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a temporary file can be written");
        path.to_str().expect("the path is text").to_owned()
    }

    /// A `stockade run` command with its tools and these arguments.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("run").args(&self.flags).args(words).current_dir(self.folder.path());
        command
    }

    /// Runs `stockade run` with these arguments.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Run {
        finish(&mut self.command(words))
    }

    /// Runs Python in a sandbox. Panics if Stockade refuses to start it: that would prove nothing.
    #[track_caller]
    pub(crate) fn python(&self, code: &str) -> Run {
        ran(self.run(&["--", "python3", "-c", code]))
    }

    /// Runs a shell in a sandbox.
    #[track_caller]
    pub(crate) fn shell(&self, code: &str) -> Run {
        ran(self.run(&["--", "sh", "-c", code]))
    }

    /// Runs Node in a sandbox.
    #[track_caller]
    pub(crate) fn javascript(&self, code: &str) -> Run {
        ran(self.run(&["--", "node", "-e", code]))
    }

    /// Runs Python that uses the raw tool socket.
    #[track_caller]
    pub(crate) fn raw(&self, code: &str) -> Run {
        self.python(&format!("{RAW}\n{code}"))
    }

    /// Runs Python in a sandbox and returns the report of `--json`.
    #[track_caller]
    pub(crate) fn report(&self, code: &str) -> Value {
        ran(self.run(&["--json", "--", "python3", "-c", code])).json()
    }

    /// All tool call events in the records, oldest first.
    #[track_caller]
    pub(crate) fn recorded(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.path("records")).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        files.sort();
        files.iter().flat_map(|file| events(file)).collect()
    }
}

/// The tool calls in one record, as `stockade audit` shows them.
fn events(record: &Path) -> Vec<Value> {
    let mut command = Command::new(binary());
    let run = finish(command.args(["audit", "show", "--json"]).arg(record));
    let events = run.json().as_array().cloned().unwrap_or_default();
    let calls = events.into_iter().filter(|event| event["kind"] == "tool_call");
    calls.map(|event| event["body"].clone()).collect()
}

#[track_caller]
fn ran(run: Run) -> Run {
    assert_ne!(run.code, 125, "{}", run.stderr);
    run
}
