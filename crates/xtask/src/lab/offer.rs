//! What apt is asked, and of which lists: those of the host, or for a newer kernel lists of our own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::program::finish;

const PACKAGE: &str = "linux-image-cloud-amd64";

/// What signs the lists of every Debian.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Lists older than this may name packages that are gone.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// Which kernel a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// That of the host's own release.
    Stable,
    /// The one that Debian ported back to that release from a later one.
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

/// apt's options, and the word for the kernel.
pub(super) struct Offer {
    pub(super) options: Vec<String>,
    pub(super) kernel: String,
}

impl Offer {
    /// Gets the lists of the newer kernel where there are none of today.
    pub(super) fn of(kernel: Kernel, cache: &Path) -> Result<Offer> {
        match kernel {
            Kernel::Stable => {
                Ok(Offer { options: options(&cache.join("apt.bin")), kernel: PACKAGE.to_owned() })
            }
            Kernel::Newer => newer(&cache.join("newer")),
        }
    }
}

/// apt as the caller, with an index of its own so that it need not be made each time.
fn options(index: &Path) -> Vec<String> {
    let values = [
        // There is no other user to drop to.
        "APT::Sandbox::User=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
        format!("Dir::Cache::pkgcache={}", index.display()),
    ];
    spelled(values)
}

fn spelled(values: impl IntoIterator<Item = String>) -> Vec<String> {
    values.into_iter().flat_map(|value| ["-o".to_owned(), value]).collect()
}

/// Lists of our own: the host's release, from where the host gets it, and what was ported back.
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
    options.extend(spelled([
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
        let said = finish(update)?;
        ensure!(said.success, "apt cannot get the lists of {suites}\n{}", said.output.trim());
        fs::write(updated, suites)?;
    }
    Ok(Offer { options, kernel: format!("{PACKAGE}/{name}-backports") })
}

/// Where the host gets its release from, and the release's name.
#[derive(Debug, PartialEq, Eq)]
struct Release {
    address: String,
    name: String,
}

fn release() -> Result<Release> {
    let mut apt = Command::new("apt-get");
    apt.env("LC_ALL", "C").args(["indextargets", "--format"]);
    apt.arg("$(CREATED_BY) $(ORIGIN) $(COMPONENT) $(REPO_URI) $(CODENAME)");
    let said = finish(apt)?;
    ensure!(said.success, "apt cannot say what it knows\n{}", said.output.trim());
    let known = read_release(&said.output);
    known.context("apt knows no release of Debian; as root, run apt-get update")
}

/// Updates and fixes of a release have names that begin with its own and go on after a dash.
fn read_release(said: &str) -> Option<Release> {
    said.lines().find_map(|line| {
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
    fn release_is_told_from_its_updates_and_from_others() {
        let said = "\
Packages Node main http://node.example/ nodistro
Translations Debian main http://mirror.example/debian/ bookworm
Packages Debian main http://mirror.example/security/ bookworm-security
Packages Debian main http://mirror.example/debian/ bookworm
";
        let address = "http://mirror.example/debian/".to_owned();
        assert_eq!(read_release(said), Some(Release { address, name: "bookworm".to_owned() }));
        assert_eq!(read_release(&said[..200]), None);
    }
}
