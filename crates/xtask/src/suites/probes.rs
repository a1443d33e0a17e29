//! Probes that attack the wall from inside, and each layer left out in turn.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cargo::test_command;
use crate::program::{Finished, cargo, executable, executable_of, finish};
use crate::scratch::Scratch;
use crate::suite::Outcome;

/// The page with the table of layers.
const PAGE: &str = "docs/verification.md";

/// Runs every probe, and the layers with the probes that the page names for them.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let built = match prepare(root)? {
        Ok(built) => built,
        Err(reason) => return Ok(Outcome::skipped(reason)),
    };
    let json = env::var_os("STOCKADE_PROBES_JSON").map(PathBuf::from);
    let probes = built.harness("probes", json, &[])?;
    let layers = built.harness("layers", Some(root.join(PAGE)), &[])?;
    Ok(judge(&probes, &layers))
}

/// Runs every probe without every layer.
pub(crate) fn matrix(root: &Path) -> Result<Outcome> {
    let built = match prepare(root)? {
        Ok(built) => built,
        Err(reason) => return Ok(Outcome::skipped(reason)),
    };
    let finished = built.harness("matrix", Some(root.join(PAGE)), &[])?;
    Ok(match finished.success {
        true => {
            Outcome::passed(format!("some probe fails without each layer\n{}", finished.output))
        }
        false => Outcome::failed(finished.output),
    })
}

/// Both must succeed; the first line has the counts, the rest every probe and layer.
fn judge(probes: &Finished, layers: &Finished) -> Outcome {
    let both = format!("{}\n{}", probes.output.trim_end(), layers.output.trim_end());
    if !(probes.success && layers.success) {
        return Outcome::failed(both);
    }
    match probes.output.lines().find(|line| line.starts_with("root: ")) {
        Some(counts) => Outcome::passed(format!("{counts}\n{both}")),
        None => Outcome::failed(format!("the harness printed no counts\n{both}")),
    }
}

/// The inputs of the harness.
pub(super) struct Built {
    harness: PathBuf,
    stockade: PathBuf,
    weakened: PathBuf,
    probe: PathBuf,
}

impl Built {
    /// Runs a task of the harness, with more variables.
    pub(super) fn harness(
        &self,
        task: &str,
        last: Option<PathBuf>,
        variables: &[(&str, &str)],
    ) -> Result<Finished> {
        let scratch = Scratch::new("probes")?;
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o755))?;
        let mut command = Command::new(&self.harness);
        command.arg(task).args([&self.stockade, &self.weakened, &self.probe]);
        command.arg(scratch.path()).args(last).envs(variables.iter().copied());
        finish(command)
    }
}

/// Builds everything, or returns why it cannot run here.
pub(super) fn prepare(root: &Path) -> Result<Result<Built, String>> {
    if fs::metadata("/proc/self").context("cannot tell who runs this")?.uid() != 0 {
        return Ok(Err("the controls need root".to_owned()));
    }
    let stockade = ordinary(root)?;
    let mut trial = Command::new(&stockade);
    trial.args(["run", "--", "true"]);
    let trial = finish(trial)?;
    if !trial.success {
        return Ok(Err(trial.output.replace('\n', " ")));
    }
    let harness = ["--package", "stockade-conformance", "--bin", "stockade-conformance"];
    let harness = build(root, "stockade-conformance", &harness, None)?;
    // In a separate folder: a binary that can be weakened never lies next to the real one.
    let weak = ["--package", "stockade", "--features", "weaken"];
    let weakened = build(root, "stockade", &weak, Some("weakened"))?;
    let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let probe =
        ["--package", "stockade-conformance", "--bin", "stockade-probe", "--target", &target];
    let probe = build(root, "stockade-probe", &probe, Some("probe"))?;
    Ok(Ok(Built { harness, stockade, weakened, probe }))
}

/// The command line as the suite `tests` built it.
fn ordinary(root: &Path) -> Result<PathBuf> {
    let mut command = test_command(root);
    command.args(["--quiet", "--no-run", "--message-format=json", "--test", "run"]);
    let built = finish(command)?;
    ensure!(built.success, "stockade does not build\n{}", built.output);
    executable_of(&built.output, "stockade", "stockade")
}

/// Builds one executable, in a subfolder of the target folder if one is given. The probe is static,
/// so that it needs no library inside.
fn build(root: &Path, name: &str, arguments: &[&str], folder: Option<&str>) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--quiet", "--locked", "--message-format=json"]).args(arguments);
    if let Some(folder) = folder {
        let usual =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        command.arg("--target-dir").arg(usual.join(folder));
    }
    if folder == Some("probe") {
        command.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    }
    let built = finish(command)?;
    ensure!(built.success, "{name} does not build\n{}", built.output);
    executable(&built.output, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(success: bool, output: &str) -> Finished {
        Finished { success, output: output.to_owned() }
    }

    #[test]
    fn both_tasks_must_succeed_and_the_counts_come_first() {
        let probes = finished(true, "A01 held\n\nroot: 1 held\n");
        let layers = finished(true, "ipc G05\n");
        let passed = "root: 1 held\nA01 held\n\nroot: 1 held\nipc G05";
        assert_eq!(judge(&probes, &layers), Outcome::passed(passed));
        assert!(matches!(judge(&probes, &finished(false, "x")), Outcome::Failed { .. }));
        assert!(matches!(judge(&finished(false, ""), &layers), Outcome::Failed { .. }));
        assert!(matches!(judge(&finished(true, ""), &layers), Outcome::Failed { .. }));
    }
}
