//! `stockade audit verify`.

use std::path::Path;

use serde_json::{Value, json};
use stockade_provider::chain;
use stockade_record::{ReadError, Tail, Verdict, Verification, verify};

use crate::args::Choice;
use crate::render::{self, Output};

use super::{chosen, unreadable};

/// The exit code for a record that was changed.
const CHANGED: u8 = 1;

pub(super) fn run(choice: &Choice, named: Option<&Path>, output: Output) -> anyhow::Result<u8> {
    let (mut views, mut code) = (Vec::new(), 0);
    for path in chosen(choice, named)? {
        let found = verify(&path).map_err(|error| unreadable(&error))?;
        if !found.verdict.holds() {
            code = CHANGED;
        }
        match output {
            Output::Json => views.push(view(&path, &found)),
            Output::Text => render::text(&line(&path, &found))?,
        }
    }
    match (output, choice.all, views.as_slice()) {
        (Output::Text, ..) => {}
        (Output::Json, false, [one]) => render::json(one)?,
        (Output::Json, ..) => render::json(&views)?,
    }
    Ok(code)
}

fn line(path: &Path, found: &Verification) -> String {
    let name = match &found.session {
        Some(session) => session.to_string(),
        None => path.display().to_string(),
    };
    let events = match found.events {
        1 => "1 event".to_owned(),
        events => format!("{events} events"),
    };
    let told = match &found.verdict {
        Verdict::Complete => format!("complete, {events}"),
        Verdict::Unfinished { tail, is_live } => {
            let why = if *is_live { "it is running" } else { "Stockade was killed" };
            format!("unfinished, {events} hold, then {}: {why}", after(*tail))
        }
        Verdict::Broken { error } => format!("BROKEN, {events} hold, then {}", chain(error)),
        Verdict::CutShort { tail } => format!(
            "BROKEN, {events} hold, then {}: the end of a finished record is gone",
            after(*tail)
        ),
    };
    format!("{name}: {told}\n")
}

fn after(tail: Tail) -> String {
    match tail {
        Tail::Clean => "nothing".to_owned(),
        Tail::Torn { bytes } => format!("{bytes} bytes of a torn line"),
    }
}

fn view(path: &Path, found: &Verification) -> Value {
    let (verdict, tail, error) = match &found.verdict {
        Verdict::Complete => ("complete", Tail::Clean, None),
        Verdict::Unfinished { tail, .. } => ("unfinished", *tail, None),
        Verdict::Broken { error } => ("broken", Tail::Clean, Some(error)),
        Verdict::CutShort { tail } => ("cut_short", *tail, None),
    };
    json!({
        "session": found.session,
        "record": path,
        "verdict": verdict,
        "holds": found.verdict.holds(),
        "complete": found.verdict.is_complete(),
        "running": matches!(found.verdict, Verdict::Unfinished { is_live: true, .. }),
        "events": found.events,
        "torn_bytes": match tail {
            Tail::Clean => 0,
            Tail::Torn { bytes } => bytes,
        },
        "broken_line": error.and_then(ReadError::line),
        "why": error.map(|error| chain(error)),
    })
}
