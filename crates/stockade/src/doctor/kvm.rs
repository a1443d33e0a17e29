//! Whether `/dev/kvm` can run a guest, tried in a child that is killed when it hangs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stockade_sys::{ends_within, run_tiny_guest};

const DEVICE: &str = "/dev/kvm";

/// The longest that a guest of two instructions may take.
const PATIENCE: Duration = Duration::from_millis(600);

/// What came of trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub(super) enum Kvm {
    /// There is no such device.
    Missing,
    /// It ran a guest.
    RunsGuests,
    /// A step failed.
    Failed {
        /// What was being done.
        step: String,
        /// What the kernel said.
        error: String,
    },
    /// Nothing came back in time.
    Silent,
}

/// Tries in this process.
pub(super) fn try_here() -> Kvm {
    match run_tiny_guest(Path::new(DEVICE)) {
        Ok(()) => Kvm::RunsGuests,
        Err(error) => Kvm::Failed { step: error.step.to_owned(), error: error.source.to_string() },
    }
}

/// Tries in a child of this program.
pub(super) fn find_out() -> Kvm {
    if !Path::new(DEVICE).exists() {
        return Kvm::Missing;
    }
    let child = Command::new("/proc/self/exe")
        .args(["doctor", "--try-kvm"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Kvm::Silent };
    if !matches!(ends_within(&child, PATIENCE), Ok(true)) {
        // It ends either way, and is waited for next.
        let _ = child.kill();
    }
    let said = child.wait_with_output().map(|output| output.stdout).unwrap_or_default();
    serde_json::from_slice(&said).unwrap_or(Kvm::Silent)
}
