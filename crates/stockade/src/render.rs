//! All printing: results on standard output, messages on standard error.

mod harmless;
pub(crate) mod lines;
pub(crate) mod live;
mod usage;

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;
use stockade_policy::is_harmless;

use crate::{ERROR, Problem, invocation};

use harmless::PREFIX;

/// How long standard error may block before the rest of a message is dropped.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The minimum that a writable pipe accepts without blocking (PIPE_BUF).
const PIPE_BYTES: usize = 4096;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Prints text for people. Escapes control characters, so that text from a file cannot control the
/// terminal.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    data(&without_escapes(text))
}

/// Prints data that this program generated, unescaped.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        // The reader closed the pipe, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Problem::new(
            format!("cannot write the result to standard output: {error}"),
            "check that its disk is not full",
        )
        .into()),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as JSON. Characters that move or hide text are escaped, which changes no value.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    escaped(&serde_json::to_string_pretty(value)?)
}

/// Prints a value as one line of JSON Lines.
pub(crate) fn json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    escaped(&serde_json::to_string(value)?)
}

/// Prints JSON, escaped, with a line end.
fn escaped(text: &str) -> anyhow::Result<()> {
    let mut safe = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if character == '\n' || is_harmless(character) {
            safe.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(safe, "\\u{unit:04x}")?;
            }
        }
    }
    safe.push('\n');
    data(&safe)
}

/// Prints a message on standard error.
pub(crate) fn talk(text: &str) {
    say(&without_escapes(text));
}

/// Prints lines about a run after the program's output.
///
/// On a terminal their prefix is bold and starts a line. A program cannot print it there:
/// [`harmless`] escapes it.
pub(crate) fn talk_of_run(lines: &[String]) {
    let prefix = match is_marked() {
        true => format!("\u{1b}[1m{PREFIX}\u{1b}[0m"),
        false => PREFIX.to_owned(),
    };
    let lines: Vec<String> =
        lines.iter().map(|line| format!("{prefix} {}", without_escapes(line))).collect();
    if !lines.is_empty() {
        say_apart(&lines.join("\n"));
    }
}

/// Prints a message on its own line, even if the program's last line is unfinished.
fn say_apart(text: &str) {
    let is_open = stderr().is_terminal() && live::is_line_open();
    say(&format!("{}{text}", if is_open { "\n" } else { "" }));
}

/// Writes a line to standard error without its lock, which a writer of the program's errors may
/// hold.
fn say(text: &str) {
    let line = format!("{text}\n");
    let mut rest = line.as_bytes();
    while !rest.is_empty() && has_room(stderr().as_fd()) {
        // A writable pipe takes this much without blocking, pipe(7).
        let piece = &rest[..rest.len().min(PIPE_BYTES)];
        match rustix::io::write(stderr(), piece) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            // Standard error is closed.
            Err(_) => return,
        }
    }
}

/// Whether a stream becomes writable within `PATIENCE`.
fn has_room(stream: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&stream, PollFlags::OUT)];
    poll(&mut polled, Some(&PATIENCE)).is_ok_and(|ready| ready > 0)
}

/// Prints why the program failed.
pub(crate) fn failure(output: Output, error: &anyhow::Error) {
    let problem = error.downcast_ref::<Problem>();
    let message = problem.map_or_else(|| format!("{error:#}"), ToString::to_string);
    let remedy = problem.map_or("", |problem| problem.remedy.as_str());
    let diagnostics = problem.map_or(&[][..], |problem| problem.diagnostics.as_slice());
    if output == Output::Json {
        let error = json!({ "message": message, "remedy": remedy, "diagnostics": diagnostics });
        if json(&json!({ "error": error })).is_ok() {
            return;
        }
    }
    for diagnostic in diagnostics {
        talk(&format!("{diagnostic}\n"));
    }
    say_apart(&format!("{} {}", label("error:"), without_escapes(&message)));
    if !remedy.is_empty() {
        talk(&format!("  = {remedy}"));
    }
}

/// Prints what is wrong with the arguments; help and version are not failures.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion) {
        // Ignores the error of a closed stream.
        let _ = error.print();
        return 0;
    }
    let argv = invocation::arguments();
    // What follows `--` belongs to a program.
    let own = || argv.iter().take_while(|word| *word != "--").map(|word| word.to_string_lossy());
    let in_lines = own().any(|word| word == "--json-lines");
    let as_json = own().any(|word| word == "--json" || word.starts_with("--json="));
    let output = if as_json { Output::Json } else { Output::Text };
    let problem = usage::problem(error, &argv).or_else(|| {
        let whole = error.render().to_string();
        let first = whole.lines().next().unwrap_or_default();
        let message = first.trim_start_matches("error: ");
        let remedy = "see `stockade --help` and the command's own --help";
        (as_json || in_lines).then(|| Problem::new(message, remedy))
    });
    match problem {
        Some(problem) if in_lines && !as_json => {
            // A closed stream leaves only the exit code.
            let _ = error_line(&problem.message, Some(&problem.remedy));
        }
        Some(problem) => failure(output, &problem.into()),
        None => _ = error.print(),
    }
    ERROR
}

/// The last of the JSON lines of a run that failed.
pub(crate) fn error_line(message: &str, remedy: Option<&str>) -> anyhow::Result<()> {
    json_line(&json!({ "event": "error", "message": message, "remedy": remedy }))
}

/// The text with every character escaped that moves, hides or reorders text on a terminal.
fn without_escapes(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || is_harmless(character) {
            safe.push(character);
        } else {
            safe.extend(character.escape_unicode());
        }
    }
    safe
}

/// A word that is highlighted on a terminal (uncoloured under `NO_COLOR`) and plain elsewhere.
fn label(word: &str) -> String {
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if has_colour { "1;31" } else { "1" };
    if is_marked() { format!("\u{1b}[{style}m{word}\u{1b}[0m") } else { word.to_owned() }
}

/// Whether Stockade's own lines are bold, which a program's output cannot be.
fn is_marked() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_lines_and_its_control_characters_are_escaped() {
        assert_eq!(without_escapes("a\n\u{1b}[2J\u{202e}b"), "a\n\\u{1b}[2J\\u{202e}b");
    }
}
