//! The virtual machine wall with a real QEMU.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::cargo::{count_tests, failed_tests};
use super::stage::Stage;
use crate::cache;
use crate::program::{finish, on_path};
use crate::suite::Outcome;

/// The programs that the image and the machines need, with their packages.
const NEEDED: [(&str, &str); 3] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mksquashfs", "squashfs-tools"),
    ("apt-get", "apt"),
];

/// The tests of this wall, one machine after the other.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if let Some(reason) = missing() {
        return Ok(Outcome::skipped(reason));
    }
    let stage = Stage::new(root, "qemu", &["stockade"], &["qemu"])?;
    let mut tests = Command::new(stage.place().join("qemu"));
    tests.env("STOCKADE_QEMU", "1").env("STOCKADE_UNDER_TEST", &stage.stockade);
    let finished = finish(tests)?;
    Ok(judge(finished.success, &finished.output))
}

/// Where the images of these tests are; the image `default` is built first if it is missing. The
/// inner error is why it cannot be.
pub(super) fn images(root: &Path) -> Result<std::result::Result<PathBuf, String>> {
    if let Some(reason) = missing() {
        return Ok(Err(reason));
    }
    let stage = Stage::new(root, "qemu-image", &["stockade"], &["qemu"])?;
    let mut tests = Command::new(stage.place().join("qemu"));
    tests.args(["--exact", "no test has this name"]);
    tests.env("STOCKADE_QEMU", "1").env("STOCKADE_UNDER_TEST", &stage.stockade);
    let finished = finish(tests)?;
    let images = cache::folder()?.join("machine-tests");
    Ok(match images.join("stockade/machines/default/manifest.json").exists() {
        true => Ok(images),
        false => Err(format!("the image of a machine cannot be built: {}", finished.output)),
    })
}

/// What is not installed.
fn missing() -> Option<String> {
    let (name, package) = NEEDED.iter().find(|(name, _)| on_path(&[name]).is_none())?;
    Some(format!("{name} of the package {package} is not installed"))
}

fn judge(success: bool, output: &str) -> Outcome {
    match (success, count_tests(output).passed) {
        (false, _) => Outcome::failed(format!("{}\n{output}", failed_tests(output))),
        (true, 0) => Outcome::failed("no test ran at all"),
        (true, passed) => {
            Outcome::passed(format!("{passed} tests in machines that QEMU translates"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_without_a_test_fails_the_suite() {
        assert_eq!(judge(true, ""), Outcome::failed("no test ran at all"));
        let output = "test a ... FAILED\ntest result: ok. 3 passed; 0 failed";
        assert_eq!(judge(false, output), Outcome::failed(format!("1 failed: a\n{output}")));
        assert!(matches!(judge(true, output), Outcome::Passed { .. }));
    }
}
