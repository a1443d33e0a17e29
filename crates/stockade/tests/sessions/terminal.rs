//! A terminal of 80 columns and 24 rows, in a terminal multiplexer.

use std::process::Command;

use crate::support::{Run, Sessions, binary, finish, skipped};

/// A terminal in tmux that runs one command; dropping it ends the multiplexer.
pub(crate) struct Terminal<'s> {
    sessions: &'s Sessions,
}

impl Terminal<'_> {
    /// A terminal with a shell of the host; `None` without tmux.
    pub(crate) fn new(sessions: &Sessions) -> Option<Terminal<'_>> {
        if finish_or_missing("tmux", &["-V"]).is_none() {
            skipped("terminals", "tmux is not installed");
            return None;
        }
        let terminal = Terminal { sessions };
        let started = terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        assert_eq!(started.code, 0, "{}", started.stderr);
        Some(terminal)
    }

    pub(crate) fn tmux(&self, words: &[&str]) -> Run {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.sessions.place.path().join("tmux")).args(["-f", "/dev/null"]);
        command.env("STOCKADE_STATE", self.sessions.state()).env("SHELL", "/bin/sh");
        command.env("BINARY", binary()).env_remove("TMUX");
        finish(command.args(words).current_dir(self.sessions.place.path()))
    }

    /// Types a line.
    pub(crate) fn line(&self, text: &str) {
        assert_eq!(self.tmux(&["send-keys", "-l", text]).code, 0);
        self.key("Enter");
    }

    /// Presses a key, such as `C-c`.
    pub(crate) fn key(&self, key: &str) {
        assert_eq!(self.tmux(&["send-keys", key]).code, 0);
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).stdout
    }

    /// Waits until the screen has a line that holds.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let shown = wait_for_screen(self, &holds);
        if let Err(screen) = shown {
            panic!("waited in vain for {what}:\n{screen}");
        }
    }
}

fn wait_for_screen(terminal: &Terminal<'_>, holds: &dyn Fn(&str) -> bool) -> Result<(), String> {
    let found = stockade_testing::within(stockade_testing::DEADLINE, || {
        terminal.screen().lines().any(holds)
    });
    if found { Ok(()) } else { Err(terminal.screen()) }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn finish_or_missing(program: &str, words: &[&str]) -> Option<Run> {
    let found = Command::new(program).args(words).output().is_ok();
    found.then(|| finish(Command::new(program).args(words)))
}
