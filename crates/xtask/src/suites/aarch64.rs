//! Type-checks the workspace for the other architecture, without running it.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::program::{cargo, finish, on_path};
use crate::suite::Outcome;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Build scripts compile C for the target, also for a check.
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Type-checks everything for aarch64, adding the target's standard library if it can.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if !has_standard_library(root)? {
        let mut rustup = Command::new("rustup");
        rustup.current_dir(root).args(["target", "add", TARGET]);
        // Ignored: the next line checks whether the library is there.
        let _ = finish(rustup);
    }
    if !has_standard_library(root)? {
        let reason =
            format!("no standard library for {TARGET}; remedy: rustup target add {TARGET}");
        return Ok(Outcome::skipped(reason));
    }
    if on_path(&[COMPILER]).is_none() {
        let reason = format!("there is no {COMPILER}; remedy: apt install gcc-aarch64-linux-gnu");
        return Ok(Outcome::skipped(reason));
    }
    let mut check = cargo(root);
    check.args(["check", "--workspace", "--all-targets", "--locked", "--quiet"]);
    check.args(["--target", TARGET]);
    let finished = finish(check)?;
    Ok(match finished.success {
        true => Outcome::passed(format!("checks for {TARGET}")),
        false => Outcome::failed(format!("cargo check for {TARGET} fails\n{}", finished.output)),
    })
}

fn has_standard_library(root: &Path) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root).args(["--print", "target-libdir", "--target", TARGET]);
    let printed = finish(rustc)?;
    Ok(printed.success && Path::new(printed.output.trim()).is_dir())
}
