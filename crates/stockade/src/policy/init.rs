//! `stockade policy init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;

use crate::Problem;
use crate::args::InitArgs;
use crate::render::{self, Output};

pub(crate) fn run(args: &InitArgs, output: Output) -> anyhow::Result<u8> {
    let preset = args.preset.0;
    let text = preset.text();
    let Some(file) = args.output.as_ref().filter(|file| file.as_os_str() != "-") else {
        match output {
            Output::Json => render::json(&json!({ "preset": preset.as_str(), "text": text }))?,
            Output::Text => render::data(text)?,
        }
        return Ok(0);
    };
    write(file, text, args.force)?;
    match output {
        Output::Json => {
            render::json(
                &json!({ "preset": preset.as_str(), "written": file.display().to_string() }),
            )?;
        }
        Output::Text => {
            let name = file.display();
            render::talk(&format!("wrote {name}; check it with: stockade policy check {name}"));
        }
    }
    Ok(0)
}

/// Writes a policy to a file. Replaces an existing one only with `force`.
pub(crate) fn write(file: &Path, text: &str, force: bool) -> Result<(), Problem> {
    let mut options = OpenOptions::new();
    // Code that once had this directory writable may have left a link under the name.
    options.write(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let written = options.open(file).and_then(|mut open| open.write_all(text.as_bytes()));
    written.map_err(|error| {
        let message = format!("cannot write the policy to {}: {error}", file.display());
        let remedy = match error.kind() {
            ErrorKind::AlreadyExists => "choose another name, or pass --force to replace it",
            _ => "choose a place you may write to",
        };
        Problem::new(message, remedy)
    })
}
