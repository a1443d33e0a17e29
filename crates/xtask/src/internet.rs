//! `cargo xtask internet`: runs a command on the fake internet.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::program::{cargo, executable, finish};

/// Builds the fake internet and executes the command on it, in the caller's directory.
pub(crate) fn run(root: &Path, command: &[String]) -> Result<std::convert::Infallible> {
    let mut build = cargo(root);
    build.args(["build", "--quiet", "--locked", "--package", "stockade-internet"]);
    build.arg("--message-format=json-render-diagnostics");
    let built = finish(build)?;
    if !built.success {
        std::io::stderr().write_all(built.output.as_bytes())?;
        bail!("the fake internet does not build");
    }
    let program = executable(&built.output, "stockade-internet")?;
    let error = Command::new(&program).arg("--").args(command).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
