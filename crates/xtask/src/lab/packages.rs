//! The Debian packages that the lab's root is made of.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

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

/// Every package with its version, `name=version`, as apt selects them for an empty machine.
pub(crate) fn resolve(offer: &Offer) -> Result<Vec<String>> {
    let mut apt = apt(offer);
    apt.args(["--simulate", "--no-install-recommends", "install"]).args(WANTED);
    apt.arg(&offer.kernel);
    let finished = finish(apt)?;
    ensure!(
        finished.success,
        "apt cannot choose the lab's packages; as root, run apt-get update\n{}",
        finished.output.trim()
    );
    let packages = installed(&finished.output);
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

/// The packages that a simulated installation would install, sorted by name.
fn installed(output: &str) -> Vec<String> {
    let package = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
        Some(format!("{name}={}", rest.split(' ').next()?))
    };
    output.lines().filter_map(package).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The kernel version, as in the package's name and the folder of its modules:
/// `6.1.0-48-cloud-amd64`.
pub(crate) fn kernel_version(packages: &[String]) -> Result<&str> {
    let is_kernel = |name: &&str| name.starts_with(|first: char| first.is_ascii_digit());
    let mut images = packages.iter().filter_map(|package| package.strip_prefix("linux-image-"));
    let version = images.find(is_kernel).and_then(|name| name.split('=').next());
    version.context("apt chose no kernel for the lab")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_the_kernel_are_read_from_a_simulation() {
        let output = "\
NOTE: This is only a simulation!
Inst linux-image-6.1.0-48-cloud-amd64 (6.1.172-1 Debian-Security:12 [amd64])
Inst bash (5.2.15-2+b13 Debian:12.14/oldstable [amd64]) []
Inst linux-image-cloud-amd64 (6.1.172-1 Debian-Security:12 [amd64])
Conf bash (5.2.15-2+b13 Debian:12.14/oldstable [amd64])
";
        let packages = installed(output);
        let expected = [
            "bash=5.2.15-2+b13",
            "linux-image-6.1.0-48-cloud-amd64=6.1.172-1",
            "linux-image-cloud-amd64=6.1.172-1",
        ];
        assert_eq!(packages, expected);
        assert_eq!(kernel_version(&packages).unwrap(), "6.1.0-48-cloud-amd64");
        assert!(kernel_version(&packages[2..]).is_err());
    }
}
