//! `stockade bench`: measures what a sandbox costs, compared with other tools on this machine.

mod curl;
mod directory;
mod docker_rows;
mod html;
mod leftovers;
mod mcp_row;
mod network;
mod peers;
mod programs;
mod records;
mod report;
mod rows;
mod samples;
mod sandboxes;
mod server;
mod session_rows;
mod sessions;
mod snippets;
mod state_rows;
mod table;
mod tool_call;
mod vm_rows;
mod wasm_rows;

use std::path::Path;

use crate::Problem;
use crate::args::BenchArgs;
use crate::render::{self, Output};

pub(crate) use peers::PEERS;
pub(crate) use rows::ROW_NAMES;

pub(crate) fn run(args: &BenchArgs, output: Output) -> anyhow::Result<u8> {
    if let Some(file) = &args.html {
        // Before minutes of measuring: fails early if the page cannot be written.
        write(file, "")?;
    }
    let report = rows::measure(args)?;
    if let Some(file) = &args.html {
        write(file, &html::page(&report))?;
    }
    match output {
        Output::Json => render::json(&report)?,
        Output::Text => render::text(&table::text(&report))?,
    }
    Ok(if report.sound() { 0 } else { crate::ERROR })
}

fn write(file: &Path, page: &str) -> Result<(), Problem> {
    std::fs::write(file, page).map_err(|error| {
        let message = format!("cannot write the page to {}: {error}", file.display());
        Problem::new(message, "name a file in a directory that you may write to")
    })
}

/// Prints progress on a terminal.
pub(crate) fn progress(text: &str) {
    use std::io::{IsTerminal, Write, stderr};
    if stderr().is_terminal() {
        // Ignores the error of a closed standard error.
        let _ = write!(stderr(), "\r\u{1b}[K{text}");
    }
}
