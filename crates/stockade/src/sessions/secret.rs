//! `stockade secret`.

use std::fs::File;
use std::io::Read;

use serde_json::json;
use stockade_api::{Request, SecretText};

use super::client;
use crate::Problem;
use crate::args::SecretCommand;
use crate::render::{self, Output};

/// More than any secret may have.
const MAX_BYTES: u64 = 8192;

pub(crate) fn secret(command: &SecretCommand, output: Output) -> anyhow::Result<u8> {
    let SecretCommand::Set { session, name, from } = command;
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
    let source = from.unwrap_or("standard input");
    let failed = |why: String| {
        let message = format!("cannot read the value from {source}: {why}");
        Problem::new(message, "pass it on standard input, or with --from env:NAME or file:PATH")
    };
    let text = match from.map(|from| from.split_once(':').unwrap_or((from, ""))) {
        None => bounded(std::io::stdin()),
        Some(("env", name)) => std::env::var(name).map_err(|error| error.to_string()),
        Some(("file", path)) => {
            File::open(path).map_err(|error| error.to_string()).and_then(bounded)
        }
        Some(_) => Err("it is not a source".to_owned()),
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
        for from in ["env:STOCKADE_TEST_NOT_SET", "file:/nonexistent", "nothing"] {
            let problem = read(Some(from)).unwrap_err();
            assert!(problem.message.starts_with("cannot read the value from "), "{problem}");
        }
    }
}
