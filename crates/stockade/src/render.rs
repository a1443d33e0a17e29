//! Everything that is printed: data on standard output, talk on standard error.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use serde_json::json;

use crate::{ERROR, Problem};

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Prints data.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Problem::new(
            format!("cannot write the result to standard output: {error}"),
            "check that its disk is not full",
        )
        .into()),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    data(&text)
}

/// Says something to the person who watches.
pub(crate) fn talk(text: &str) {
    // Nobody is left to be told when standard error is closed.
    let _ = writeln!(stderr(), "{text}");
}

/// Prints why the program failed.
pub(crate) fn failure(output: Output, error: &anyhow::Error) {
    let problem = error.downcast_ref::<Problem>();
    let message = problem.map_or_else(|| format!("{error:#}"), ToString::to_string);
    let remedy = problem.map_or("", |problem| problem.remedy.as_str());
    let diagnostics = problem.map_or(&[][..], |problem| problem.diagnostics.as_slice());
    if output == Output::Json {
        let object = json!({ "error": { "message": message, "remedy": remedy, "diagnostics": diagnostics } });
        if json(&object).is_ok() {
            return;
        }
    }
    for diagnostic in diagnostics {
        talk(&format!("{diagnostic}\n"));
    }
    talk(&format!("{} {message}", label("error:")));
    if !remedy.is_empty() {
        talk(&format!("  = {remedy}"));
    }
}

/// Prints what is wrong with the arguments; help and version are not failures.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    // Nobody is left to be told when the stream is closed.
    let _ = error.print();
    match error.kind() {
        DisplayHelp | DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(ERROR),
    }
}

/// A word that stands out on a terminal, and is plain elsewhere and under `NO_COLOR`.
fn label(word: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if stderr().is_terminal() && !plain {
        format!("\u{1b}[1;31m{word}\u{1b}[0m")
    } else {
        word.to_owned()
    }
}
