//! `stockade policy suggest`.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use stockade_policy::{Denial, Suggestion};
use stockade_record::{Body, Reader};

use crate::args::SuggestArgs;
use crate::render::{self, Output};
use crate::{Problem, audit, load};

/// The maximum size of a result, in bytes: the policy bounds its output.
const MAX_RESULT_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: &SuggestArgs, output: Output) -> anyhow::Result<u8> {
    let denials = denials(args.from.as_deref(), args.record.as_deref())?;
    let suggestion = Suggestion::of(&denials);
    match output {
        Output::Json => {
            let mut view = serde_json::to_value(&suggestion)?;
            view["denials"] = json!(denials.len());
            view["text"] = json!(suggestion.to_yaml());
            render::json(&view)?;
        }
        Output::Text if suggestion.is_empty() => render::talk("nothing was denied"),
        Output::Text => render::text(&suggestion.to_yaml())?,
    }
    Ok(0)
}

fn denials(from: Option<&str>, named: Option<&Path>) -> anyhow::Result<Vec<Denial>> {
    let is_result = |from: &&str| {
        load::is_standard_input(Path::new(from))
            || (!from.ends_with(".jsonl") && (from.contains('/') || Path::new(from).is_file()))
    };
    match from.filter(is_result) {
        Some(file) => of_result(Path::new(file)),
        None => of_record(&audit::find(from, named)?),
    }
}

/// The fields of a `run --json` result that this command reads.
#[derive(Deserialize)]
struct ResultText {
    denials: Vec<Denial>,
}

fn of_result(file: &Path) -> anyhow::Result<Vec<Denial>> {
    let bytes = load::result(file, MAX_RESULT_BYTES)?;
    let result: ResultText = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("{} is no result of a run: {error}", file.display());
        Problem::new(message, "pass what `stockade run --json` printed, or a session")
    })?;
    Ok(result.denials)
}

fn of_record(path: &Path) -> anyhow::Result<Vec<Denial>> {
    let mut reader = Reader::open(path).map_err(|error| audit::unreadable(&error))?;
    let mut denials = Vec::new();
    while let Some(event) = reader.next().map_err(|error| audit::unreadable(&error))? {
        match event.body {
            Body::Verdict(given) => denials.extend(given.denial),
            Body::Egress(egress) => denials.extend(egress.denial),
            Body::ToolCall(call) => denials.extend(call.denial),
            Body::Port(event) => denials.extend(event.denial),
            Body::Denial(denied) => denials.push(denied.denial),
            Body::SessionStarted(_)
            | Body::ExecutionStarted(_)
            | Body::FileOperation(_)
            | Body::LimitHit(_)
            | Body::SecretReplaced(_)
            | Body::ExecutionEnded(_)
            | Body::SessionEnded(_) => {}
        }
    }
    Ok(denials)
}
