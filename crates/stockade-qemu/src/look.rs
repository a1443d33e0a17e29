//! The parts of this wall on this host, for display by `stockade doctor`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use stockade_bootimage::BootStore;
use stockade_policy::SEARCH_PATH;
use stockade_provider::Obstacle;

use crate::accelerator::Choice;
use crate::command::QEMU;
use crate::{Accelerator, DEFAULT_IMAGE, QemuError, QemuOptions, kvm};

/// The parts of this wall on this host.
#[derive(Clone, Debug, Serialize)]
pub struct MachineLook {
    /// QEMU's version.
    pub qemu: Option<String>,
    /// Why QEMU cannot be used.
    pub qemu_obstacle: Option<Obstacle>,
    /// What machines run with, as the last start found.
    pub accelerator: Accelerator,
    /// Why KVM cannot be used.
    pub kvm_obstacle: Option<Obstacle>,
    /// The kernel of the default image.
    pub kernel: Option<String>,
    /// Why the default image cannot be used.
    pub image_obstacle: Option<Obstacle>,
}

impl MachineLook {
    /// Looks at every part; starts QEMU only to ask for its version.
    pub fn look(options: &QemuOptions) -> MachineLook {
        let found = qemu();
        let choice = found.as_ref().ok().map(|path| known(options, path));
        let (qemu, qemu_obstacle) = match found.map(|path| (version(&path), path)) {
            Ok((version, path)) => {
                let shown = path.display().to_string();
                (Some(version.map_or(shown.clone(), |it| format!("{it}, {shown}"))), None)
            }
            Err(error) => (None, Some(error.into_obstacle())),
        };
        let (kernel, image_obstacle) = match image_kernel(options) {
            Ok(kernel) => (Some(kernel), None),
            Err(error) => (None, Some(error.into_obstacle())),
        };
        let accelerator = choice.as_ref().map_or(Accelerator::Tcg, Choice::accelerator);
        let kvm_obstacle = choice.and_then(|it| it.obstacle().cloned());
        MachineLook { qemu, qemu_obstacle, accelerator, kvm_obstacle, kernel, image_obstacle }
    }

    /// Names and values, one line each; a line without a name continues the one before.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut part = |name: &str, value: &Option<String>, obstacle: &Option<Obstacle>| {
            if let Some(value) = value {
                lines.push((name.to_owned(), value.clone()));
            }
            if let Some(Obstacle { reason, remedy }) = obstacle {
                lines.push((name.to_owned(), reason.clone()));
                lines.push((String::new(), format!("= {remedy}")));
            }
        };
        part("QEMU", &self.qemu, &self.qemu_obstacle);
        let image = self.kernel.as_ref().map(|kernel| format!("{DEFAULT_IMAGE}, Linux {kernel}"));
        part("machine image", &image, &self.image_obstacle);
        part("accelerator", &Some(self.accelerator.to_string()), &None);
        part("KVM for machines", &None, &self.kvm_obstacle);
        lines
    }
}

/// The answer of the last start; none is made here.
fn known(options: &QemuOptions, qemu: &Path) -> Choice {
    let Some(key) = kvm::key(qemu) else { return kvm::no_device() };
    let kept = options.machines.as_ref().and_then(|machines| kvm::kept(machines, &key));
    kept.unwrap_or_else(|| {
        Choice::Tcg(Obstacle {
            reason: "no machine has been started with it yet".to_owned(),
            remedy: "`stockade doctor` tries it once the default image is built".to_owned(),
        })
    })
}

/// The executable that the wall around QEMU will find.
pub(crate) fn qemu() -> Result<PathBuf, QemuError> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(QemuError::ForeignMachine);
    }
    let places = SEARCH_PATH.iter().map(|place| Path::new(place).join(QEMU));
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or(QemuError::NoQemu { program: QEMU, places: SEARCH_PATH.to_vec() })
}

/// QEMU's own version, without the line around it.
fn version(path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let output = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let version = output.lines().next()?.strip_prefix("QEMU emulator version ")?;
    version.split(' ').next().map(str::to_owned)
}

fn image_kernel(options: &QemuOptions) -> Result<String, QemuError> {
    let machines = options.machines.as_ref().ok_or(QemuError::NoStore)?;
    Ok(BootStore::new(machines).find(DEFAULT_IMAGE)?.manifest.kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_image_is_shown_with_the_command_that_builds_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = QemuOptions { machines: Some(folder.path().to_owned()), always_boots: true };
        let look = MachineLook::look(&options);
        let remedy = look.image_obstacle.as_ref().unwrap().remedy.clone();
        assert_eq!(remedy, "build it with `stockade image build --vm default`");
        assert!(look.lines().contains(&(String::new(), format!("= {remedy}"))));
    }
}
