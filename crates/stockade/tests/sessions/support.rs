//! Sessions of one test, in a state directory of its own.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::Value;
pub(crate) use stockade_testing::{
    Run, Scratch, ended, examples, finish, finish_with, is_root, not_run, processes, skipped,
    start, wait_for,
};

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// Whether this host lets Stockade build a wall; see [`stockade_testing::walls_can_be_built`].
pub(crate) fn walls_can_be_built() -> bool {
    stockade_testing::walls_can_be_built(&binary())
}

/// The sessions of one test; dropping it ends them.
pub(crate) struct Sessions {
    pub(crate) place: Scratch,
}

impl Sessions {
    /// No session yet; `None` if this host cannot build walls.
    pub(crate) fn new() -> Option<Sessions> {
        walls_can_be_built().then(|| Sessions { place: Scratch::new() })
    }

    /// The directory of the state.
    pub(crate) fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    /// The directory of the checkpoints.
    pub(crate) fn store(&self) -> PathBuf {
        self.place.path().join("store")
    }

    /// A command that uses these sessions, not started yet.
    pub(crate) fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        let mut command = Command::new(binary());
        command.args(words).env("STOCKADE_STATE", self.state());
        command.env("XDG_STATE_HOME", self.place.path().join("records"));
        command.env("STOCKADE_STORE", self.store());
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run<W: AsRef<OsStr>>(&self, words: &[W]) -> Run {
        finish(self.command(words))
    }

    /// Runs a command that must succeed, and returns what it printed.
    #[track_caller]
    pub(crate) fn text(&self, words: &[&str]) -> String {
        self.run(words).text().to_owned()
    }

    /// Runs a command with `--json`.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        self.run(&[&["--json"], words].concat()).json()
    }

    /// Runs a command that must fail as a mistake of the caller, and checks the message and the
    /// remedy.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str], message: &str, remedy: &str) {
        let run = self.run(words);
        assert_eq!(run.code, 125, "{words:?}: {run:?}");
        let (said, advised) = run.stderr.split_once("\n  = ").unwrap_or((&run.stderr, ""));
        assert!(said.contains(message), "{words:?}: {}", run.stderr);
        assert!(advised.contains(remedy), "{words:?}: {}", run.stderr);
    }

    /// Creates a session.
    #[track_caller]
    pub(crate) fn create(&self, name: &str) {
        assert_eq!(self.text(&["create", "--name", name]), format!("{name}\n"));
    }

    /// Starts a command in the background.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        start(&mut self.command(words))
    }

    /// Runs a shell script in a session.
    #[track_caller]
    pub(crate) fn sh(&self, name: &str, script: &str) -> Run {
        self.run(&["exec", name, "--", "sh", "-c", script])
    }

    /// The process that holds a session.
    #[track_caller]
    pub(crate) fn supervisor(&self, name: &str) -> u32 {
        let found = self.json(&["inspect", name])[0]["supervisor"].as_u64();
        u32::try_from(found.expect("it has a supervisor")).expect("it is a pid")
    }

    /// Waits until a number of programs run in a session.
    #[track_caller]
    pub(crate) fn wait_for_programs(&self, name: &str, count: usize) {
        wait_for("programs run", || {
            (self.text(&["ps", "-q", name]).lines().count() == count).then_some(())
        });
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let names = self.run(&["ls", "-q"]).stdout;
        for name in names.lines() {
            self.run(&["rm", "-f", name]);
        }
    }
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits until a process has ended.
#[track_caller]
pub(crate) fn wait_for_end(pid: u32) {
    wait_for("the process ends", || (!is_alive(pid)).then_some(()));
}

/// Kills a process.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.expect("it is a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
}

/// Waits until no process of the host has a text in its command line.
#[track_caller]
pub(crate) fn wait_for_no_process(mark: &str) {
    wait_for("no process is left", || {
        (!processes().iter().any(|line| line.contains(mark))).then_some(())
    });
}
