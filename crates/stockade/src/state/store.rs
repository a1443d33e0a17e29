//! `stockade store`.

use super::place::{self, problem};
use crate::args::{StoreArgs, StoreCommand};
use crate::render::{self, Output};
use crate::sessions::table::{size, table};

/// The exit code of a check that found damage.
const DAMAGED: u8 = 1;

pub(crate) fn store(args: &StoreArgs, output: Output) -> anyhow::Result<u8> {
    let store = place::open()?;
    match args.command {
        StoreCommand::Ls => {
            let usage = store.usage().map_err(|error| problem(&error))?;
            if output == Output::Json {
                render::json(&usage)?;
                return Ok(0);
            }
            let row = |name: &str, value: String| vec![name.to_owned(), value];
            render::text(&table(&[
                row("directory", store.directory().display().to_string()),
                row("checkpoints", usage.checkpoints.to_string()),
                row("blobs", usage.blobs.to_string()),
                row("size", format!("{} of {}", size(usage.bytes), size(usage.quota))),
            ]))?;
            Ok(0)
        }
        StoreCommand::Verify => {
            let verified = store.verify().map_err(|error| problem(&error))?;
            let code = if verified.problems.is_empty() { 0 } else { DAMAGED };
            match output {
                Output::Json => render::json(&verified)?,
                Output::Text => {
                    for problem in &verified.problems {
                        render::text(&format!("{problem}\n"))?;
                    }
                    render::talk(&format!(
                        "store: read {} blobs and {} checkpoints; {} problems",
                        verified.blobs,
                        verified.checkpoints,
                        verified.problems.len()
                    ));
                }
            }
            Ok(code)
        }
        StoreCommand::Gc => {
            let collected = store.collect().map_err(|error| problem(&error))?;
            match output {
                Output::Json => render::json(&collected)?,
                Output::Text => render::talk(&format!("store: freed {}", size(collected.bytes))),
            }
            Ok(0)
        }
    }
}
