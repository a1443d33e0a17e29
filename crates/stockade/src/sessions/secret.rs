//! `stockade secret`.

use std::env::VarError;
use std::fs::File;
use std::io::Read;

use serde_json::json;
use stockade_api::{Request, SecretText};
use stockade_policy::check_name;

use super::client;
use crate::Problem;
use crate::args::SecretCommand;
use crate::render::{self, Output};

/// More than any secret may have.
const MAX_BYTES: u64 = 8192;

pub(crate) fn secret(command: &SecretCommand, output: Output) -> anyhow::Result<u8> {
    let SecretCommand::Set { session, name, from } = command;
    check_name(name).map_err(|error| {
        // What is written there may be the value, so it is not repeated.
        Problem::new("the name of a secret is the name of a variable", error.remedy())
    })?;
    let value = SecretText(read(from.as_deref())?);
    let request = Request::SetSecret { name: name.clone(), value };
    client::runtime()?.block_on(client::ask(session, request))?;
    match output {
        Output::Json => render::json(&json!({ "session": session, "secret": name }))?,
        Output::Text => render::text(&format!("{name}\n"))?,
    }
    Ok(0)
}

/// The value, without the line end after it.
fn read(from: Option<&str>) -> Result<String, Problem> {
    const REMEDY: &str = "pass it on standard input, or with --from env:NAME or file:PATH";
    let failed = |why: String| {
        let source = from.unwrap_or("standard input");
        Problem::new(format!("cannot read the value from {source}: {why}"), REMEDY)
    };
    let text = match from.map(|from| from.split_once(':').unwrap_or((from, ""))) {
        None => bounded(std::io::stdin()),
        Some(("env", name)) if check_name(name).is_ok() => match std::env::var(name) {
            Ok(value) => Ok(value),
            // The error of the library quotes a value that is not Unicode.
            Err(VarError::NotPresent) => Err("the variable is not set here".to_owned()),
            Err(VarError::NotUnicode(_)) => Err("its value is not UTF-8 text".to_owned()),
        },
        Some(("file", path)) => {
            File::open(path).map_err(|error| error.to_string()).and_then(bounded)
        }
        // What is written there may be the value, so it is not repeated.
        Some((kind, _)) => {
            let shown = if kind == "env" { "env:…" } else { "…" };
            return Err(Problem::new(format!("--from `{shown}` is not a source"), REMEDY));
        }
    };
    let text = text.map_err(failed)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn bounded(source: impl Read) -> Result<String, String> {
    let mut text = String::new();
    let read = source.take(MAX_BYTES).read_to_string(&mut text);
    read.map(|_| text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_comes_from_a_file_without_its_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "a value\r\n").unwrap();
        assert_eq!(read(Some(&format!("file:{}", file.display()))).unwrap(), "a value");
        for from in ["env:STOCKADE_TEST_NOT_SET", "file:/nonexistent"] {
            let problem = read(Some(from)).unwrap_err();
            assert!(problem.message.starts_with("cannot read the value from "), "{problem}");
        }
    }

    #[test]
    fn value_in_place_of_its_source_is_not_repeated() {
        for from in ["sk-live-Zq8", "env:sk-live-Zq8", "sk:live-Zq8"] {
            let problem = read(Some(from)).unwrap_err();
            assert!(problem.message.contains('…'), "{problem}");
            assert!(!format!("{problem} {}", problem.remedy).contains("Zq8"), "{problem}");
        }
    }
}
