//! `stockade audit ls`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use stockade_record::{Body, Glance, Listed, glance};

use crate::args::LsArgs;
use crate::render::{self, Output};

use super::{records, text};

/// Length of a session name's unique prefix: its start time and eight random digits.
const SHORT: usize = 31;

/// The longest command, in characters.
const MAX_COMMAND: usize = 60;

pub(super) fn run(args: &LsArgs, named: Option<&Path>, output: Output) -> anyhow::Result<u8> {
    let records = records(named)?;
    let latest = records.iter().rev().take(args.limit);
    match output {
        Output::Json => render::json(&latest.map(view).collect::<Vec<Value>>())?,
        Output::Text => {
            let mut table = String::new();
            for record in latest {
                let SessionLine { began, state, code, command } = told(record);
                let name = record.session.as_str().get(..SHORT).unwrap_or_default();
                let code = code.map(|code| code.to_string()).unwrap_or_default();
                writeln!(table, "{name}  {began:<19}  {state:<15} {code:>3}  {command}")?;
            }
            render::text(&table)?;
            if let Some(more) = records.len().checked_sub(args.limit).filter(|more| *more > 0) {
                render::talk(&format!("{more} more; --limit NUMBER shows them"));
            }
        }
    }
    Ok(0)
}

/// One line about a session.
#[derive(Default)]
struct SessionLine {
    /// When it started, in UTC and to the second.
    began: String,
    /// How it ended.
    state: String,
    /// The exit code of its last program.
    code: Option<i32>,
    /// What it ran, shortened.
    command: String,
}

fn told(record: &Listed) -> SessionLine {
    let Ok(Glance { first, last, ended }) = glance(&record.path) else {
        return SessionLine { state: "broken".to_owned(), ..SessionLine::default() };
    };
    let began = first.as_ref().map(|event| event.time.to_string()).unwrap_or_default();
    let began = began.get(..19).unwrap_or_default().replace('T', " ");
    let state = match last.as_ref().map(|event| &event.body) {
        Some(Body::SessionEnded(ended)) => ended.outcome.clone(),
        _ if record.is_live() => "running".to_owned(),
        _ => "unfinished".to_owned(),
    };
    let command = match first.as_ref().map(|event| &event.body) {
        Some(Body::SessionStarted(started)) => text::command(&started.command),
        _ => String::new(),
    };
    let code = ended.and_then(|ended| ended.exit_code);
    SessionLine { began, state, code, command: shortened(&command) }
}

/// A command in one line: a program text after `-c` can have kilobytes.
fn shortened(command: &str) -> String {
    match command.char_indices().nth(MAX_COMMAND) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_owned(),
    }
}

fn view(record: &Listed) -> Value {
    let SessionLine { state, code, .. } = told(record);
    let first = glance(&record.path).ok().and_then(|glance| glance.first);
    let started = first.as_ref().and_then(|event| match &event.body {
        Body::SessionStarted(started) => Some(started),
        _ => None,
    });
    json!({
        "session": record.session,
        "record": record.path,
        "state": state,
        "exit_code": code,
        "began": first.as_ref().map(|event| event.time),
        "policy": started.map(|started| &started.policy),
        "command": started.map(|started| &started.command),
        "user": started.map(|started| started.user),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_command_is_cut_between_characters() {
        assert_eq!(shortened("ls -l"), "ls -l");
        let long = format!("python3 -c {}", "ü".repeat(5000));
        assert_eq!(shortened(&long).chars().count(), MAX_COMMAND + 1);
    }
}
