//! Whether KVM runs machines here: one has started with it.
//!
//! ```text
//! no /dev/kvm ──▶ tcg
//! kept answer for this boot, device and QEMU ──▶ that one
//! otherwise: a machine with KVM ── its guest answers ──▶ kvm, kept
//!                  └── QEMU's end, or the deadline ────▶ tcg with the reason, kept
//! ```
//! An openable `/dev/kvm` is not enough: some only emulate a part of a processor.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stockade_provider::Obstacle;

use crate::QemuError;
use crate::accelerator::Choice;

/// The device, which only the wall around a machine with KVM has.
pub const KVM: &str = "/dev/kvm";

/// How long the trial may take.
pub(crate) const MOST_TRIAL: Duration = Duration::from_secs(20);

/// The file with the answer, in the directory of images; no image has a name with a dot in front.
const KEPT: &str = ".kvm.json";

/// An answer, and what it depends on.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    key: String,
    /// Why KVM does not work, and what to do.
    obstacle: Option<(String, String)>,
}

/// What the answer depends on; `None` without the device.
pub(crate) fn key(qemu: &Path) -> Option<String> {
    let device = fs::metadata(KVM).ok()?;
    let program = fs::metadata(qemu).ok()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!(
        "{} {} {:o}:{}:{}:{} {}:{}:{}",
        boot.trim(),
        rustix::process::geteuid().as_raw(),
        device.mode(),
        device.uid(),
        device.gid(),
        device.ctime(),
        program.ino(),
        program.size(),
        program.mtime(),
    ))
}

/// The answer without a device.
pub(crate) fn no_device() -> Choice {
    Choice::Tcg(Obstacle {
        reason: format!("there is no {KVM}"),
        remedy: "enable virtualisation in the firmware and load kvm_intel or kvm_amd".to_owned(),
    })
}

/// The answer of a trial that failed.
pub(crate) fn failed(error: &QemuError) -> Choice {
    let reason = match error {
        QemuError::Boot { console } => last_line(console),
        QemuError::Slow { limit, console } => format!(
            "a machine with KVM did not answer within {} s: {}",
            limit.as_secs(),
            last_line(console)
        ),
        other => stockade_provider::chain(other),
    };
    let remedy = match reason.contains("Permission denied") {
        true => format!(
            "add the user to the group of {KVM}; for root, whose machines run as other users, \
             `chmod 666 {KVM}`"
        ),
        false => "use a host whose processor and hypervisor let KVM run machines".to_owned(),
    };
    Choice::Tcg(Obstacle { reason, remedy })
}

fn last_line(console: &str) -> String {
    // A guest kernel prints later lines only if KVM ran it.
    let line = console.lines().find(|line| line.starts_with("qemu-system"));
    line.or(console.lines().last()).unwrap_or("(nothing)").to_owned()
}

/// The kept answer, if it is for this key.
pub(crate) fn kept(machines: &Path, key: &str) -> Option<Choice> {
    let text = fs::read(machines.join(KEPT)).ok()?;
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    (kept.key == key).then_some(match kept.obstacle {
        None => Choice::Kvm,
        Some((reason, remedy)) => Choice::Tcg(Obstacle { reason, remedy }),
    })
}

/// Keeps an answer. A directory that cannot be written keeps none, and every start tries again.
pub(crate) fn keep(machines: &Path, key: String, choice: &Choice) {
    let obstacle =
        choice.obstacle().map(|obstacle| (obstacle.reason.clone(), obstacle.remedy.clone()));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(machines)?;
        file.write_all(&serde_json::to_vec(&Kept { key, obstacle })?)?;
        file.persist(machines.join(KEPT)).map_err(|error| error.error)?;
        Ok(())
    };
    let _ = write();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_kept_for_its_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let refused = failed(&QemuError::Boot {
            console: "qemu-system-x86_64: Could not access KVM: Permission denied\nother"
                .to_owned(),
        });
        let Choice::Tcg(obstacle) = &refused else { panic!("the trial failed") };
        assert!(obstacle.reason.ends_with("Permission denied"), "{obstacle:?}");
        assert!(obstacle.remedy.contains("chmod 666 /dev/kvm"), "{obstacle:?}");
        keep(folder.path(), "one".to_owned(), &refused);
        assert_eq!(kept(folder.path(), "one"), Some(refused));
        assert_eq!(kept(folder.path(), "other"), None);
        keep(folder.path(), "other".to_owned(), &Choice::Kvm);
        assert_eq!(kept(folder.path(), "other"), Some(Choice::Kvm));
        assert_eq!(kept(folder.path(), "one"), None);
    }
}
