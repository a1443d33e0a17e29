//! Programs that are timed from before their start to after their exit.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::samples::{Side, timed};

/// A program and its expected output.
pub(super) struct Timed {
    pub(super) name: String,
    pub(super) argv: Vec<OsString>,
    pub(super) prints: &'static str,
}

impl Timed {
    pub(super) fn new(
        name: impl Into<String>,
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        prints: &'static str,
    ) -> Timed {
        Timed { name: name.into(), argv: argv.into_iter().map(Into::into).collect(), prints }
    }

    pub(super) fn side(self) -> Side<'static> {
        let command = shown(&self.argv);
        Side {
            name: self.name.clone(),
            command: command.clone(),
            round: Box::new(move || {
                let (took, output) = timed(|| output(&self.argv))?;
                if !output.status.success() || output.stdout != self.prints.as_bytes() {
                    bail!(
                        "`{command}` ended with {} and printed {:?}: {}",
                        output.status,
                        String::from_utf8_lossy(&output.stdout),
                        String::from_utf8_lossy(&output.stderr).trim()
                    );
                }
                Ok(took)
            }),
        }
    }
}

/// Runs a program with empty input and captures its output.
pub(super) fn output(argv: &[OsString]) -> anyhow::Result<std::process::Output> {
    let (program, arguments) = argv.split_first().context("there is nothing to run")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.output().with_context(|| format!("cannot start {}", Path::new(program).display()))
}

/// The arguments quoted for a shell.
pub(super) fn shown(argv: &[OsString]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=+:,".contains(c);
    let word = |word: &OsString| {
        let text = word.to_string_lossy();
        match !text.is_empty() && text.chars().all(plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', r"'\''")),
        }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_quoted_for_a_shell() {
        let words = ["python3", "-c", "print('a')", ""].map(OsString::from);
        assert_eq!(shown(&words), r"python3 -c 'print('\''a'\'')' ''");
    }

    #[test]
    fn round_with_unexpected_output_or_exit_code_is_an_error() {
        let side = |argv: &[&str], prints| Timed::new("x", argv, prints).side();
        assert!((side(&["echo", "a"], "a\n").round)().is_ok());
        assert!((side(&["echo", "b"], "a\n").round)().is_err());
        assert!((side(&["false"], "").round)().is_err());
        assert!((side(&["/nonexistent"], "").round)().is_err());
    }
}
