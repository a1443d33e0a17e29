//! Attacks a built Stockade from inside. It needs root, because the controls do.
//!
//! ```text
//! stockade-conformance probes STOCKADE WEAKENED PROBE PLACE [JSON]
//! stockade-conformance layers STOCKADE WEAKENED PROBE PLACE PAGE
//! stockade-conformance matrix STOCKADE WEAKENED PROBE PLACE PAGE
//! ```
//! `STOCKADE_RUNTIME` selects containers with that runtime instead of the walls of this machine.
//! `probes` prints one line per probe, `layers` and `matrix` one per layer: the former tries what
//! the page names, the latter everything. All end with 1 when something is not as it must be.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use stockade_conformance::{Inputs, Scope, layers, run};

/// The probes that are known to fail.
const GAPS: &str = include_str!("../../gaps.toml");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["probes", a, b, c, d] => probes(&inputs([a, b, c, d]), None),
        ["probes", a, b, c, d, json] => probes(&inputs([a, b, c, d]), Some(json)),
        ["layers", a, b, c, d, page] => matrix(&inputs([a, b, c, d]), page, Scope::Named),
        ["matrix", a, b, c, d, page] => matrix(&inputs([a, b, c, d]), page, Scope::All),
        _ => {
            return say("usage: probes|layers|matrix STOCKADE WEAKENED PROBE PLACE [JSON|PAGE]", 2);
        }
    };
    match result {
        Ok((text, failures)) if failures.is_empty() => say(&text, 0),
        Ok((text, failures)) => say(&format!("{text}\n\n{}", failures.join("\n")), 1),
        Err(why) => say(&format!("error: {why}"), 1),
    }
}

fn inputs(paths: [&str; 4]) -> Inputs {
    let [stockade, weakened, probe, place] = paths.map(PathBuf::from);
    let provider = std::env::var("STOCKADE_PROVIDER").ok();
    let runtime = std::env::var("STOCKADE_RUNTIME").ok();
    Inputs { stockade, weakened, probe, place, provider, runtime }
}

/// The text to print, and the failures.
type Found = Result<(String, Vec<String>), String>;

fn probes(inputs: &Inputs, json: Option<&str>) -> Found {
    let report = run(inputs, GAPS)?;
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        fs::write(path, text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok((report.text(), report.failures()))
}

fn matrix(inputs: &Inputs, page: &str, scope: Scope) -> Found {
    let text = fs::read_to_string(page).map_err(|error| format!("{page}: {error}"))?;
    let matrix = layers(inputs, &text, scope)?;
    let line = |(layer, ids): (&&str, &Vec<&str>)| format!("{layer:<16} {}", ids.join(" "));
    let lines: Vec<String> = matrix.red.iter().map(line).collect();
    Ok((format!("without          these fail\n{}", lines.join("\n")), matrix.failures))
}

fn say(text: &str, code: u8) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(3),
    }
}
