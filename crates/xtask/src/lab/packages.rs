//! The Debian packages that the lab's root is made of.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use stockade_bootimage::resolved;

use super::offer::Offer;
use crate::program::{finish, on_path};

/// The packages in addition to a kernel; apt adds their dependencies. Kept few: each one makes
/// unpacking and booting slower.
const WANTED: [&str; 17] = [
    "base-files",
    "bash",
    "busybox-static",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "hostname",
    "kmod",
    "libc-bin",
    "mount",
    "nftables",
    "procps",
    "python3",
    "sed",
    "tar",
    "util-linux",
];

/// Programs of the host that the lab uses, and their packages.
const PROGRAMS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("mke2fs", "e2fsprogs"),
    ("setpriv", "util-linux"),
];

/// The missing programs of the host, with how to install them; `None` if there are none.
pub(crate) fn missing_programs() -> Option<String> {
    let is_missing = |name: &str| on_path(&[name, &format!("../sbin/{name}")]).is_none();
    let missing: Vec<_> = PROGRAMS.iter().filter(|(name, _)| is_missing(name)).collect();
    let (first, _) = missing.first()?;
    if *first == "apt-get" || cfg!(not(target_arch = "x86_64")) {
        return Some("the lab needs a Debian or Ubuntu host on x86_64".to_owned());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: BTreeSet<&str> = missing.iter().map(|(_, package)| *package).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    Some(format!(
        "the lab needs {}: as root, apt-get install --no-install-recommends {}",
        names.join(", "),
        packages.join(" ")
    ))
}

/// Every package with its version, `name=version`, as apt selects them for an empty machine with
/// `more` packages.
pub(crate) fn resolve(offer: &Offer, more: &[String]) -> Result<Vec<String>> {
    let mut apt = apt(offer);
    apt.args(["--simulate", "--no-install-recommends", "install"]).args(WANTED);
    apt.arg(&offer.kernel).args(more);
    let finished = finish(apt)?;
    ensure!(
        finished.success,
        "apt cannot choose the lab's packages; as root, run apt-get update\n{}",
        finished.output.trim()
    );
    let packages = resolved(&finished.output);
    ensure!(!packages.is_empty(), "apt names no package for the lab\n{}", finished.output.trim());
    Ok(packages)
}

/// Downloads packages into a folder; apt checks them against its signed lists.
pub(crate) fn download(packages: &[String], offer: &Offer, folder: &Path) -> Result<()> {
    let mut apt = apt(offer);
    apt.current_dir(folder).args(["--quiet", "download"]).args(packages);
    let finished = finish(apt)?;
    if !finished.success {
        bail!("apt cannot download the lab's packages\n{}", finished.output.trim());
    }
    Ok(())
}

/// apt for an empty machine.
fn apt(offer: &Offer) -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("LC_ALL", "C").args(["-o", "Dir::State::status=/dev/null"]);
    apt.args(&offer.options);
    apt
}
