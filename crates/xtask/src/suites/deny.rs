//! Licences, bans and sources of every dependency, by cargo-deny.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cache::tool_folder;
use crate::program::{Finished, cargo, finish};
use crate::suite::Outcome;

const VERSION: &str = "0.20.2";

/// Checks the lock file against `deny.toml`, fetching the tool once per machine.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let folder = tool_folder(&format!("cargo-deny-{VERSION}"))?;
    let tool = folder.join("bin").join("cargo-deny");
    if !tool.is_file() {
        let installed = install(root, &folder)?;
        if !installed.success {
            let error = installed.output.lines().find(|line| line.starts_with("error"));
            let reason = error.unwrap_or("cargo install failed");
            return Ok(Outcome::skipped(format!("cannot install cargo-deny {VERSION}: {reason}")));
        }
    }
    let checked = check(root, tool)?;
    Ok(match checked.success {
        true => Outcome::passed("bans, licenses, sources"),
        false => Outcome::failed(format!("deny.toml is not kept\n{}", checked.output)),
    })
}

fn install(root: &Path, folder: &Path) -> Result<Finished> {
    let mut command = cargo(root);
    // A debug build: it compiles in a third of the time and runs for a second.
    command.args(["install", "--quiet", "--locked", "--debug", "cargo-deny"]);
    command.args(["--version", VERSION, "--root"]).arg(folder);
    // Cargo then builds in a temporary folder: the workspace cannot reuse the objects.
    command.env_remove("CARGO_TARGET_DIR");
    finish(command)
}

fn check(root: &Path, tool: PathBuf) -> Result<Finished> {
    let mut command = Command::new(tool);
    command.current_dir(root).args(["--locked", "--log-level", "error", "check"]);
    command.args(["--hide-inclusion-graph", "bans", "licenses", "sources"]);
    finish(command)
}
