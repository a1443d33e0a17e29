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

pub(super) fn run(args: &LsArgs, named: Option<&Path>, output: Output) -> anyhow::Result<u8> {
    let records = records(named)?;
    let latest = records.iter().rev().take(args.limit);
    match output {
        Output::Json => render::json(&latest.map(view).collect::<Vec<Value>>())?,
        Output::Text => {
            let mut table = String::new();
            for record in latest {
                let (state, command) = told(record);
                let name = record.session.as_str().get(..SHORT).unwrap_or_default();
                writeln!(table, "{name}  {state:<15} {command}")?;
            }
            render::text(&table)?;
            if let Some(more) = records.len().checked_sub(args.limit).filter(|more| *more > 0) {
                render::talk(&format!("{more} more; --limit NUMBER shows them"));
            }
        }
    }
    Ok(0)
}

/// How a session ended, and what it ran.
fn told(record: &Listed) -> (String, String) {
    let Ok(Glance { first, last }) = glance(&record.path) else {
        return ("broken".to_owned(), String::new());
    };
    let state = match last.as_ref().map(|event| &event.body) {
        Some(Body::SessionEnded(ended)) => ended.outcome.clone(),
        _ if record.is_live() => "running".to_owned(),
        _ => "unfinished".to_owned(),
    };
    let command = match first.as_ref().map(|event| &event.body) {
        Some(Body::SessionStarted(started)) => text::command(&started.command),
        _ => String::new(),
    };
    (state, command)
}

fn view(record: &Listed) -> Value {
    let (state, _) = told(record);
    let first = glance(&record.path).ok().and_then(|glance| glance.first);
    let started = first.as_ref().and_then(|event| match &event.body {
        Body::SessionStarted(started) => Some(started),
        _ => None,
    });
    json!({
        "session": record.session,
        "record": record.path,
        "state": state,
        "began": first.as_ref().map(|event| event.time),
        "policy": started.map(|started| &started.policy),
        "command": started.map(|started| &started.command),
        "user": started.map(|started| started.user),
    })
}
