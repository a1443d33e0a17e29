//! A single file is the whole installation: installs it, moves it, and runs it in an empty
//! environment. The same for the Python package, in a clean virtual environment.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::program::{cargo, finish, on_path};
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

/// What pip prints when it cannot download the build backend.
const OFFLINE: [&str; 2] =
    ["No matching distribution found", "Temporary failure in name resolution"];

/// Installs the Python package as its page says, with `pip install .` in a clean virtual
/// environment, and runs it elsewhere. The note has the time.
pub(crate) fn python(root: &Path) -> Result<Outcome> {
    let Some(python) = on_path(&["python3"]) else {
        return Ok(Outcome::skipped("there is no python3"));
    };
    let scratch = Scratch::new("install-python")?;
    let environment = scratch.path().join("environment");
    let mut make = Command::new(python);
    let made = finish({
        make.args(["-m", "venv"]).arg(&environment);
        make
    })?;
    if !made.success {
        return Ok(Outcome::skipped(format!(
            "python3 cannot make an environment: {}",
            made.output
        )));
    }
    let interpreter = environment.join("bin/python3");
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "."]).current_dir(root);
    for name in ["PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MATURIN_PEP517_ARGS", "PIP_TARGET"] {
        install.env_remove(name);
    }
    let began = Instant::now();
    let installed = finish(install)?;
    let seconds = began.elapsed().as_secs();
    if !installed.success {
        return Ok(match OFFLINE.iter().any(|words| installed.output.contains(words)) {
            true => Outcome::skipped("pip cannot download maturin"),
            false => Outcome::failed(format!("`pip install .` fails\n{}", installed.output)),
        });
    }
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere)?;
    let mut module = Command::new(&interpreter);
    module.args(["-m", "stockade", "--version"]).current_dir(&elsewhere).env_clear();
    let module = finish(module)?;
    let mut script = Command::new(environment.join("bin/stockade"));
    let script = finish({
        script.arg("--version").current_dir(&elsewhere).env_clear();
        script
    })?;
    let printed = module.output.trim();
    let expected = concat!("stockade ", env!("CARGO_PKG_VERSION"));
    let is_good = module.success && script.success && printed.starts_with(expected);
    Ok(match is_good && module.output == script.output {
        true => Outcome::passed(format!("{printed}, by `pip install .` in {seconds} s")),
        false => Outcome::failed(format!(
            "`python -m stockade --version` printed: {printed}; `stockade --version`: {}",
            script.output.trim()
        )),
    })
}

fn file_names(folder: &Path) -> Result<Vec<String>> {
    fs::read_dir(folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}
