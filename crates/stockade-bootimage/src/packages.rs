//! Chooses and downloads packages with apt, as for an empty machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::BootImageError;
use crate::program::{command, finish};

const APT: &str = "apt-get";

/// Every package with its version, `name=version`, as apt selects them for an empty machine. apt
/// checks them against its signed lists.
pub(crate) fn resolve(
    wanted: &[&str],
    architecture_kernel: &str,
) -> Result<Vec<String>, BootImageError> {
    let mut apt = apt();
    apt.args(["--simulate", "--no-install-recommends", "install"]).args(wanted);
    apt.arg(architecture_kernel);
    let packages = resolved(&finish(APT, apt)?);
    if packages.is_empty() {
        let output = "it names no package".to_owned();
        return Err(BootImageError::Program { program: APT, output });
    }
    Ok(packages)
}

/// Downloads packages into a directory.
pub(crate) fn download(packages: &[&str], to: &Path) -> Result<(), BootImageError> {
    let mut apt = apt();
    apt.current_dir(to).args(["--quiet", "download"]).args(packages);
    finish(APT, apt).map(|_| ())
}

fn apt() -> Command {
    let mut apt = command(APT);
    // apt must neither consider this host's packages, nor switch to a user of its own.
    for option in [
        "Dir::State::status=/dev/null",
        "APT::Sandbox::User=",
        "Dir::Cache::pkgcache=",
        "Dir::Cache::srcpkgcache=",
    ] {
        apt.args(["-o", option]);
    }
    apt
}

/// The packages that a simulated installation would install, sorted by name.
pub fn resolved(output: &str) -> Vec<String> {
    let package = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
        // Behind the name of a package that would be replaced.
        let name = name.split(' ').next()?;
        Some(format!("{name}={}", rest.split(' ').next()?))
    };
    output.lines().filter_map(package).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The kernel version, as in the package's name and the directory of its modules:
/// `6.1.0-48-cloud-amd64`.
pub fn kernel_version(packages: &[String]) -> Option<&str> {
    let is_kernel = |name: &&str| name.starts_with(|first: char| first.is_ascii_digit());
    let mut images = packages.iter().filter_map(|package| package.strip_prefix("linux-image-"));
    images.find(is_kernel).and_then(|name| name.split('=').next())
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
        let packages = resolved(output);
        let expected = [
            "bash=5.2.15-2+b13",
            "linux-image-6.1.0-48-cloud-amd64=6.1.172-1",
            "linux-image-cloud-amd64=6.1.172-1",
        ];
        assert_eq!(packages, expected);
        assert_eq!(kernel_version(&packages), Some("6.1.0-48-cloud-amd64"));
        assert_eq!(kernel_version(&packages[2..]), None);
    }
}
