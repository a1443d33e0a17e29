//! Running one act behind a wall, through the command line.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, filled};
use crate::canaries::PLANTED;
use crate::seen::{Output, Seen, finish};

/// The path of the probe executable inside.
pub(crate) const INSIDE: &str = "/probe/stockade-probe";

/// The variable that selects the layer that a weakened build leaves out.
pub(crate) const WEAKEN: &str = "STOCKADE_WEAKEN";

/// A wall under test: the binary, its user, and the layer that is left out.
#[derive(Clone, Debug)]
pub(crate) struct Wall {
    /// Its name in reports and in `gaps.toml`.
    pub(crate) name: String,
    /// The `stockade` binary.
    pub(crate) binary: PathBuf,
    /// The user that starts it; `None` for the user of the harness.
    pub(crate) user: Option<u32>,
    /// The flags that select it.
    pub(crate) flags: Vec<String>,
    /// The layer that a weakened build leaves out.
    pub(crate) without: Option<&'static str>,
    /// Names of places that belong to this wall's user.
    pub(crate) names: BTreeMap<&'static str, String>,
}

impl Wall {
    /// Runs one act inside, with additional flags for `stockade run`.
    pub(crate) fn act(
        &self,
        bench: &Bench,
        flags: &[&str],
        words: &[&str],
    ) -> Result<Seen, String> {
        finish(self.command(bench, flags, words), Output::Report)
    }

    /// The same after a line of shell, which opens files or changes limits.
    pub(crate) fn act_after(
        &self,
        bench: &Bench,
        line: &str,
        flags: &[&str],
        words: &[&str],
    ) -> Result<Seen, String> {
        let mut all = vec![executable(flags)];
        all.extend(words);
        finish(self.started(bench, Output::Report, line, flags, &all), Output::Report)
    }

    /// The command of an act.
    pub(crate) fn command(&self, bench: &Bench, flags: &[&str], words: &[&str]) -> Command {
        let mut all = vec![executable(flags)];
        all.extend(words);
        self.program(bench, flags, &all)
    }

    /// The command of any program inside.
    pub(crate) fn program(&self, bench: &Bench, flags: &[&str], words: &[&str]) -> Command {
        self.started(bench, Output::Report, "", flags, words)
    }

    /// The command of an act whose output is read while it runs.
    pub(crate) fn live(&self, bench: &Bench, words: &[&str]) -> Command {
        let mut all = vec![INSIDE];
        all.extend(words);
        self.started(bench, Output::Plain, "", &[], &all)
    }

    fn started(
        &self,
        bench: &Bench,
        output: Output,
        line: &str,
        flags: &[&str],
        words: &[&str],
    ) -> Command {
        let fill = |text: &str| filled(&filled(text, &self.names), &bench.names);
        let mut command = self.plain(&fill(line));
        command.arg("run");
        if output == Output::Report {
            command.arg("--json");
        }
        command.args(&self.flags);
        // A policy names its own visible files.
        if !flags.contains(&"--policy") {
            command.arg("--mount").arg(format!("{}:{INSIDE}", bench.probe.display()));
        }
        command.args(flags.iter().map(|flag| fill(flag))).arg("--");
        command.args(words.iter().map(|word| fill(word)));
        command.current_dir(&self.names["own"]).env(PLANTED, &bench.canaries.token);
        command
    }

    /// The binary as this wall's user, after a line of shell if there is one.
    pub(crate) fn plain(&self, line: &str) -> Command {
        let mut command = after(line, &self.binary);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        // Also set for the binary under test, which must ignore it.
        command.env(WEAKEN, self.without.unwrap_or("seccomp"));
        command
    }
}

/// The path of the probe executable: a command allowlist names one of the host.
fn executable(flags: &[&str]) -> &'static str {
    match flags.contains(&"{listed}") {
        true => "{programs}/stockade-probe",
        false => INSIDE,
    }
}

/// A program that starts after a line of shell, or directly if the line is empty.
pub(crate) fn after(line: &str, program: &Path) -> Command {
    if line.is_empty() {
        return Command::new(program);
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{line}; exec \"$@\""), "sh"]).arg(program);
    shell
}
