//! `stockade policy check`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_policy::{Policy, Printable};

use crate::ERROR;
use crate::load;
use crate::problem::Problem;
use crate::render::{self, Output};

/// Checks each file; an invalid one does not prevent checking the others.
pub(crate) fn run(files: &[PathBuf], output: Output) -> anyhow::Result<u8> {
    load::refuse_shared_input(files.iter().map(PathBuf::as_path))?;
    let mut results = Vec::new();
    let mut refused = 0;
    for file in files {
        let checked = load::policy(file);
        refused += usize::from(checked.is_err());
        match output {
            Output::Json => results.push(entry(file, checked)),
            Output::Text => match checked {
                Ok(policy) => {
                    render::text(&format!("{}: ok, {}\n", file.display(), summary(&policy)))?
                }
                Err(error) => render::failure(output, &error),
            },
        }
    }
    if output == Output::Json {
        render::json(&Value::Array(results))?;
    } else if refused > 0 && files.len() > 1 {
        render::talk(&format!("{refused} of {} policies refused", files.len()));
    }
    Ok(if refused == 0 { 0 } else { ERROR })
}

fn entry(file: &Path, checked: anyhow::Result<Policy>) -> Value {
    let file = file.display().to_string();
    match checked {
        Ok(policy) => json!({ "file": file, "ok": true, "name": policy.name, "errors": [] }),
        Err(error) => {
            let problem = error.downcast_ref::<Problem>();
            let diagnostics = problem.map_or(&[][..], |problem| problem.diagnostics.as_slice());
            let message = format!("{error:#}");
            let remedy = problem.map_or("", |problem| problem.remedy.as_str());
            json!({ "file": file, "ok": false, "message": message, "remedy": remedy, "errors": diagnostics })
        }
    }
}

/// A policy in one line, to recognize it at a glance.
fn summary(policy: &Policy) -> String {
    let rules: usize = policy.gates.iter().map(|gate| gate.code.rules.len()).sum();
    let hosts: usize = policy.gates.iter().map(|gate| gate.network.entries.len()).sum();
    let count = |number: usize, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    [
        format!("`{}`", Printable(&policy.name)),
        count(policy.mounts.len(), "mount", "mounts"),
        count(hosts, "host", "hosts"),
        count(policy.tools.value.len(), "tool", "tools"),
        count(rules, "rule", "rules"),
    ]
    .join(", ")
}
