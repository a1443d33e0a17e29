//! A single file is the whole installation: installs it, moves it, and runs it in an empty
//! environment.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::program::{cargo, finish};
use crate::scratch::Scratch;
use crate::suite::Outcome;

/// Installs the command line and runs it in an empty folder with an empty environment.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if !root.join("crates/stockade/Cargo.toml").is_file() {
        return Ok(Outcome::failed("crates/stockade, the command line, does not exist yet"));
    }
    let scratch = Scratch::new("install")?;
    let installed = scratch.path().join("installed");
    let mut install = cargo(root);
    install.args(["install", "--quiet", "--locked", "--no-track", "--path", "crates/stockade"]);
    install.arg("--root").arg(&installed);
    let finished = finish(install)?;
    if !finished.success {
        return Ok(Outcome::failed(format!("cargo install fails\n{}", finished.output)));
    }
    let files = file_names(&installed.join("bin"))?;
    if files != ["stockade"] {
        return Ok(Outcome::failed(format!("installed {files:?} instead of one file, stockade")));
    }
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere)?;
    let copy = elsewhere.join("stockade");
    // Moved, not copied: the program must not depend on files next to its original place.
    fs::rename(installed.join("bin").join("stockade"), &copy)?;
    let size = fs::metadata(&copy)?.len();
    let mut stockade = Command::new(&copy);
    stockade.current_dir(&elsewhere).env_clear().arg("version");
    let version = finish(stockade)?;
    let printed = version.output.trim();
    let answered = printed.starts_with("stockade") && printed.contains("answered its handshake");
    let printed = printed.replace('\n', ", ");
    Ok(match version.success && answered {
        true => Outcome::passed(format!("{printed}, one file of {} kB", size / 1000)),
        false => Outcome::failed(format!("`stockade version` failed or printed: {printed}")),
    })
}

fn file_names(folder: &Path) -> Result<Vec<String>> {
    fs::read_dir(folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}
