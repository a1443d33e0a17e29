//! Tests whether `/dev/kvm` can run a guest, in a child that is killed if it hangs.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stockade_sys::{ends_within, run_tiny_guest};

use crate::invocation;

const DEVICE: &str = "/dev/kvm";

/// The time limit for a guest of two instructions.
const PATIENCE: Duration = Duration::from_millis(600);

/// The result of the test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub(super) enum Kvm {
    /// The device does not exist.
    Missing,
    /// It ran a guest.
    RunsGuests,
    /// A step failed.
    Failed {
        /// The step that failed.
        step: String,
        /// The kernel's error.
        error: String,
    },
    /// The child did not finish in time.
    Silent,
}

/// Runs the test in this process.
pub(super) fn try_here() -> Kvm {
    match run_tiny_guest(Path::new(DEVICE)) {
        Ok(()) => Kvm::RunsGuests,
        Err(error) => Kvm::Failed { step: error.step.to_owned(), error: error.source.to_string() },
    }
}

/// Runs the test in a child of this program.
pub(super) fn find_out() -> Kvm {
    if !Path::new(DEVICE).exists() {
        return Kvm::Missing;
    }
    let child = invocation::again()
        .args(["doctor", "--try-kvm"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Kvm::Silent };
    if !matches!(ends_within(&child, PATIENCE), Ok(true)) {
        // Ignores the error: the child may have exited, and `wait` follows.
        let _ = child.kill();
    }
    let said = child.wait_with_output().map(|output| output.stdout).unwrap_or_default();
    serde_json::from_slice(&said).unwrap_or(Kvm::Silent)
}
