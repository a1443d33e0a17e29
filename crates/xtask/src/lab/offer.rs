//! The package lists for apt: those of the host, or for a newer kernel our own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::program::finish;

const PACKAGE: &str = "linux-image-cloud-amd64";

/// The keys that sign the package lists of every Debian.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Older lists may name packages that no longer exist.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The kernel of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The kernel of the host's own release.
    Stable,
    /// The backported kernel of that release.
    Newer,
}

impl Kernel {
    pub(super) fn named(name: &str) -> Option<Kernel> {
        match name {
            "stable" => Some(Kernel::Stable),
            "newer" => Some(Kernel::Newer),
            _ => None,
        }
    }
}

/// apt's options, and the kernel's package.
pub(super) struct Offer {
    pub(super) options: Vec<String>,
    pub(super) kernel: String,
}

impl Offer {
    /// Downloads the lists for the newer kernel unless today's exist.
    pub(super) fn of(kernel: Kernel, cache: &Path) -> Result<Offer> {
        match kernel {
            Kernel::Stable => {
                Ok(Offer { options: options(&cache.join("apt.bin")), kernel: PACKAGE.to_owned() })
            }
            Kernel::Newer => newer(&cache.join("newer")),
        }
    }
}

/// apt options for the calling user, with a cached index so that apt need not rebuild it each time.
fn options(index: &Path) -> Vec<String> {
    let values = [
        // apt must not switch to its own user.
        "APT::Sandbox::User=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
        format!("Dir::Cache::pkgcache={}", index.display()),
    ];
    apt_options(values)
}

fn apt_options(values: impl IntoIterator<Item = String>) -> Vec<String> {
    values.into_iter().flat_map(|value| ["-o".to_owned(), value]).collect()
}

/// Our own lists: the host's release, from the host's mirror, and its backports.
fn newer(folder: &Path) -> Result<Offer> {
    let (sources, lists) = (folder.join("sources"), folder.join("lists"));
    fs::create_dir_all(&sources)?;
    fs::create_dir_all(lists.join("partial"))?;
    let Release { address, name } = release()?;
    let suites = format!("{name} {name}-backports");
    let text = format!(
        "Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: main\nSigned-By: {KEYRING}\n"
    );
    fs::write(sources.join("debian.sources"), text)?;
    let mut options = options(&folder.join("apt.bin"));
    options.extend(apt_options([
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        format!("Dir::Etc::SourceParts={}/", sources.display()),
        format!("Dir::State::Lists={}", lists.display()),
    ]));
    let updated = folder.join("updated");
    let is_fresh = fs::metadata(&updated)
        .and_then(|it| it.modified())
        .is_ok_and(|at| at.elapsed().is_ok_and(|age| age < FRESH));
    if !is_fresh {
        let mut update = Command::new("apt-get");
        update.env("LC_ALL", "C").args(&options);
        update.args(["--error-on=any", "--quiet", "update"]);
        let finished = finish(update)?;
        ensure!(
            finished.success,
            "apt cannot get the lists of {suites}\n{}",
            finished.output.trim()
        );
        fs::write(updated, suites)?;
    }
    Ok(Offer { options, kernel: format!("{PACKAGE}/{name}-backports") })
}

/// The host's mirror and the name of its release.
#[derive(Debug, PartialEq, Eq)]
struct Release {
    address: String,
    name: String,
}

fn release() -> Result<Release> {
    let mut apt = Command::new("apt-get");
    apt.env("LC_ALL", "C").args(["indextargets", "--format"]);
    apt.arg("$(CREATED_BY) $(ORIGIN) $(COMPONENT) $(REPO_URI) $(CODENAME)");
    let finished = finish(apt)?;
    ensure!(finished.success, "apt cannot list its sources\n{}", finished.output.trim());
    let known = read_release(&finished.output);
    known.context("apt knows no release of Debian; as root, run apt-get update")
}

/// The names of updates and security fixes start with the release's name and a dash.
fn read_release(output: &str) -> Option<Release> {
    output.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Packages", "Debian", "main", address, name] if !name.contains('-') => {
                Some(Release { address: address.to_owned(), name: name.to_owned() })
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_distinguished_from_its_updates_and_from_other_sources() {
        let output = "\
Packages Node main http://node.example/ nodistro
Translations Debian main http://mirror.example/debian/ bookworm
Packages Debian main http://mirror.example/security/ bookworm-security
Packages Debian main http://mirror.example/debian/ bookworm
";
        let address = "http://mirror.example/debian/".to_owned();
        assert_eq!(read_release(output), Some(Release { address, name: "bookworm".to_owned() }));
        assert_eq!(read_release(&output[..200]), None);
    }
}
