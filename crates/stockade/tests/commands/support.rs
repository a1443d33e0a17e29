//! Runs one Python program with and without a command list.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use stockade_testing::{Scratch, skipped, under_test};

/// Python helpers that the programs of these tests share. `start` prints whether a program started,
/// with its exit code or errno.
pub(crate) const PRELUDE: &str = r#"
import ctypes, os, shutil, subprocess, sys
def start(*argv):
    try:
        print('started', subprocess.run(argv, stdout=subprocess.DEVNULL).returncode)
    except OSError as error:
        print('refused', error.errno)
def start_open(descriptor):
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open('/dev/null', os.O_WRONLY), 1)
            os.execve(descriptor, ['ls', '/'], {})
        except OSError as error:
            os._exit(100 + error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print('started 0' if code == 0 else f'refused {code - 100}')
"#;

/// The output of `start` for a program that the root lacks, and for one that may not start.
pub(crate) const NOT_THERE: &str = "refused 2";
pub(crate) const NOT_ALLOWED: &str = "refused 13";

/// A directory with a copy of `ls`, which a policy mounts at `/tools`.
pub(crate) struct Tools(Scratch);

impl Tools {
    pub(crate) fn new() -> Tools {
        let folder = Scratch::new();
        folder.directory("tools");
        std::fs::copy("/bin/ls", folder.path().join("tools/ls")).expect("ls can be copied");
        Tools(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a policy that mounts the tools and contains these clauses.
    pub(crate) fn policy(&self, clauses: &str) -> String {
        let tools = self.path().join("tools");
        self.plain_policy(&format!(
            "filesystem: {{read: [{{host: {}, guest: /tools}}]}}\n{clauses}\n",
            tools.display()
        ))
    }

    pub(crate) fn plain_policy(&self, text: &str) -> String {
        self.0.file("policy.yaml", text)
    }

    /// Asserts that an act works only without the clause, and that the denial names `target`.
    pub(crate) fn assert_denied(&self, act: &str, answer: &str, target: &str) {
        let code = format!("{PRELUDE}{act}");
        let free = run(&["--policy", &self.policy(""), "--"], &code);
        assert_eq!(free.text("stdout"), "started 0\n", "without the clause: {act}: {}", free.0);
        let listed = self.policy("command_allowlist: [python3]");
        let held = run(&["--policy", &listed, "--"], &code);
        assert_eq!(held.text("stdout").trim_end(), answer, "with the clause: {act}: {}", held.0);
        held.assert_names(target);
        let shown = stockade(&["run", "--policy", &listed, "--", "python3", "-c", &code]);
        let said = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(said.contains(&format!("denied {target}: command_allowlist")), "{said}");
    }
}

/// The report of a run.
pub(crate) struct Report(pub(crate) Value);

impl Report {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} is text: {}", self.0))
    }

    /// Whether a cgroup holds the memory limit. Without one the wall makes no memory files.
    pub(crate) fn has_exact_memory(&self) -> bool {
        let controls = self.0["isolation"]["controls"].as_array().expect("controls are a list");
        let memory = controls.iter().find(|held| held["control"] == "max_memory_mb");
        memory.expect("every run has a memory limit")["precision"] == "exact"
    }

    pub(crate) fn targets(&self) -> Vec<&str> {
        let denials = self.0["denials"].as_array().expect("denials are a list");
        denials.iter().map(|denial| denial["target"].as_str().expect("text")).collect()
    }

    /// Asserts that a denial names `target` and the policy line that denied it.
    pub(crate) fn assert_names(&self, target: &str) {
        let denials = self.0["denials"].as_array().expect("denials are a list");
        let denial = denials.iter().find(|denial| denial["target"] == target);
        let denial = denial.unwrap_or_else(|| panic!("{target} is not in {denials:?}"));
        assert_eq!(denial["control"], "commands");
        let rule = denial["rule"].as_str().expect("a rule is text");
        assert!(rule.contains("command_allowlist: ["), "{denial}");
    }
}

/// Runs a Python program given as an argument.
pub(crate) fn run(options: &[&str], code: &str) -> Report {
    let mut words = vec!["run", "--json"];
    words.extend(options);
    words.extend(["python3", "-c", code]);
    report(&stockade(&words))
}

pub(crate) fn report(output: &Output) -> Report {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    Report(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{said}")))
}

/// The binary under test.
fn binary() -> PathBuf {
    under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// Runs the binary under test with only the system's interpreters in `PATH`.
pub(crate) fn stockade(words: &[&str]) -> Output {
    Command::new(binary())
        .args(words)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .envs(std::env::var_os("XDG_STATE_HOME").map(|place| ("XDG_STATE_HOME", place)))
        .output()
        .expect("the binary under test starts")
}

/// Whether this host can enforce a command list. If not, the tests print why they are skipped, or
/// fail if `STOCKADE_REQUIRE` requires them.
pub(crate) fn lists_can_be_held() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let tools = Tools::new();
        let policy = tools.plain_policy("command_allowlist: [python3]\n");
        let output = stockade(&["run", "--policy", &policy, "--", "python3", "-c", "print(1)"]);
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.stdout != b"1\n").then_some(reason)
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}
