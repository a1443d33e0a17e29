//! What of the host may be shown inside, and what never.

use std::fs;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::Trust;
use super::{Bind, Link, Surroundings};

/// Never shown, nor is anything above them: people's files, secrets, and the running system.
const NEVER: [&str; 10] =
    ["/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var"];

/// Nothing below these is shown either: no interpreter is installed there.
const NEVER_BELOW: [&str; 5] = ["/dev", "/etc", "/proc", "/run", "/sys"];

/// Never shown as a whole, because they hold what many programs keep.
const SHARED: [&str; 9] = [
    "/lost+found",
    "/media",
    "/mnt",
    "/opt",
    "/srv",
    "/usr/local",
    "/var/cache",
    "/var/lib",
    "/var/tmp",
];

/// The same for places in a home.
const SHARED_AT_HOME: [&str; 14] = [
    ".asdf",
    ".cache",
    ".config",
    ".local",
    ".local/bin",
    ".local/lib",
    ".local/share",
    ".local/state",
    ".nvm",
    ".pyenv",
    ".ssh",
    ".volta",
    "bin",
    "lib",
];

/// What an installation or environment keeps at its top to work. A directory that has more is not
/// shown as a whole: beside them lie other environments, package caches, and settings such as
/// pip.conf, .condarc and etc/npmrc with passwords.
const OWN: [&str; 14] = [
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "include",
    "share",
    "ssl",
    "man",
    "conda-meta",
    "compiler_compat",
    "x86_64-conda-linux-gnu",
    "pyvenv.cfg",
];

/// What may lie at the top besides, and is of no use inside.
const HARMLESS: [&str; 8] = [
    ".gitignore",
    ".lock",
    "BUILD",
    "CACHEDIR.TAG",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "LICENSE.txt",
];

/// The rules for one person.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The home as it is called, and as it is.
    homes: Vec<PathBuf>,
}

impl Places {
    pub(super) fn of(surroundings: &Surroundings) -> Places {
        let named = surroundings.home.clone();
        // A home that cannot be resolved leads nowhere, so nothing that is shown can lie in it.
        let real = named.as_ref().and_then(|home| fs::canonicalize(home).ok());
        Places { homes: named.into_iter().chain(real).collect() }
    }

    /// Whether a directory may be shown with all that it holds.
    pub(super) fn allows(&self, directory: &Path) -> bool {
        let covers = |place: &Path| place.starts_with(directory);
        let shared_at_home =
            |home: &PathBuf| SHARED_AT_HOME.iter().any(|place| home.join(place) == directory);
        self.allows_file(directory)
            && !NEVER.iter().chain(&SHARED).any(|place| covers(Path::new(place)))
            && !self.homes.iter().any(|home| covers(home) || shared_at_home(home))
            && directory.parent() != Some(Path::new("/home"))
    }

    /// Whether a file may be shown.
    pub(super) fn allows_file(&self, file: &Path) -> bool {
        !NEVER_BELOW.iter().any(|place| file.starts_with(place))
            && !self.homes.iter().any(|home| file.starts_with(home.join(".ssh")))
    }

    /// A directory, or only its own parts where it holds more; nothing if it may not be shown.
    pub(super) fn cover(&self, prefix: &Path, trust: Trust) -> Result<Option<Cover>, Problem> {
        if !self.allows(prefix) {
            return Ok(None);
        }
        let unreadable = |error| Problem::of_io(prefix, &error);
        let mut cover = Cover::default();
        let mut whole = true;
        for entry in fs::read_dir(prefix).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if OWN.iter().any(|own| name == *own) {
                let resolved = trust.resolve(&entry.path())?;
                // A link of this name that leads elsewhere would show what somebody planted.
                if !resolved.real.starts_with(prefix) {
                    return Err(Problem::Forbidden { path: resolved.real });
                }
                cover.links.extend(resolved.links);
                cover.binds.push(Bind::same(resolved.real));
            } else {
                whole &= HARMLESS.iter().any(|harmless| name == *harmless);
            }
        }
        if whole {
            cover = Cover { binds: vec![Bind::same(prefix.to_path_buf())], links: Vec::new() };
        }
        match cover.binds.iter().find(|bind| !self.allows(&bind.host)) {
            Some(bind) => Err(Problem::Forbidden { path: bind.host.clone() }),
            None => Ok(Some(cover)),
        }
    }
}

/// What shows a directory.
#[derive(Debug, Default)]
pub(super) struct Cover {
    pub(super) binds: Vec<Bind>,
    pub(super) links: Vec<Link>,
}

/// The directories that the system's own programs and libraries are in, and the names for them at
/// the top where a distribution has merged those into `/usr`.
pub(super) fn system() -> Cover {
    let mut cover = Cover::default();
    for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        if let Ok(target) = fs::read_link(&path) {
            cover.links.push(Link { at: path, target });
        } else if path.is_dir() {
            cover.binds.push(Bind::same(path));
        }
    }
    cover
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places { homes: vec![PathBuf::from("/home/me"), PathBuf::from("/data/homes/me")] }
    }

    #[test]
    fn nothing_that_holds_other_things_is_shown() {
        for path in [
            "/",
            "/home",
            "/home/me",
            "/home/other",
            "/data",
            "/data/homes",
            "/data/homes/me",
            "/root",
            "/etc",
            "/etc/python",
            "/run",
            "/run/user/1/x",
            "/proc/1/root",
            "/sys",
            "/dev",
            "/dev/shm/x",
            "/tmp",
            "/var",
            "/opt",
            "/usr",
            "/usr/local",
            "/home/me/.local",
            "/home/me/.pyenv",
            "/data/homes/me/.ssh",
            "/home/me/.ssh/venv",
            "/home/me/.local/share",
        ] {
            assert!(!places().allows(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn one_installation_is_shown() {
        for path in [
            "/home/me/.pyenv/versions/3.11.7",
            "/home/me/miniconda3",
            "/home/other/venv",
            "/opt/python",
            "/tmp/mine/venv",
            "/home/me/.local/share/uv/python/cpython-3.12.8",
        ] {
            assert!(places().allows(Path::new(path)), "{path}");
        }
    }
}
