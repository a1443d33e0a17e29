//! The lab's nested machine: a real `/dev/kvm`, by KVM on a processor that QEMU translates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::lab::{self, Job, Kernel, Size};
use crate::program::{finish, on_path};
use crate::suite::Outcome;

const SIZE: Size =
    Size { memory_mib: 2048, cpus: 1, timeout: Duration::from_secs(300), nested: true };

/// Runs a few instructions in a virtual machine.
const MACHINE: &str = include_str!("nested/machine.py");
/// Runs the virtual machine wall.
const WALL: &str = include_str!("nested/wall.py");

/// Where the nested machine has the image of its own machines.
const DATA: &str = "/srv/data";
const IMAGE: &str = "stockade/machines/default";

/// The suite `nested`.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if let Some(missing) = lab::missing_programs() {
        return Ok(Outcome::skipped(missing));
    }
    if on_path(&["mksquashfs"]).is_none() {
        return Ok(Outcome::skipped("mksquashfs of the package squashfs-tools is not installed"));
    }
    let user = Job { user: "agent".to_owned(), ..Job::of(&["python3", "-I", "-c", MACHINE]) };
    let (code, output) = lab::capture(Kernel::Stable, &user, SIZE)?;
    if code != 0 {
        return Ok(Outcome::failed(format!("a user cannot use /dev/kvm there\n{output}")));
    }
    let plain = Size { nested: false, ..SIZE };
    let (code, output) = lab::capture(Kernel::Stable, &user, plain)?;
    if code == 0 {
        return Ok(Outcome::failed(format!("an ordinary machine has /dev/kvm too\n{output}")));
    }
    let (code, output) = lab::capture(Kernel::Stable, &wall(root)?, SIZE)?;
    if code != 0 {
        return Ok(Outcome::failed(format!("the virtual machine wall does not use KVM\n{output}")));
    }
    Ok(Outcome::passed("machines of a user and of the virtual machine wall run with KVM"))
}

/// The command line with its image, on a host with QEMU.
fn wall(root: &Path) -> Result<Job> {
    let mut files = lab::ours(root)?;
    let (stockade, _) = files.first().context("the command line is the first file")?;
    files.push((image(stockade)?, format!("{DATA}/{IMAGE}")));
    Ok(Job {
        environment: vec![format!("XDG_DATA_HOME={DATA}")],
        files,
        packages: vec!["qemu-system-x86".to_owned()],
        ..Job::of(&["python3", "-I", "-c", WALL])
    })
}

/// The image that the suite `qemu` uses too; builds it if necessary.
fn image(stockade: &Path) -> Result<PathBuf> {
    let data = cache::folder()?.join("machine-tests");
    let image = data.join(IMAGE);
    if !image.join("manifest.json").exists() {
        let mut build = Command::new(stockade);
        build.args(["image", "build", "--vm", "default"]).env("XDG_DATA_HOME", &data);
        let built = finish(build)?;
        ensure!(built.success, "cannot build the image of a machine\n{}", built.output);
    }
    Ok(image)
}
