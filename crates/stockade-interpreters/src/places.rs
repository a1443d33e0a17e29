//! Which host paths may be mounted inside, and which never.

use std::fs;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::Trust;
use super::{Bind, Surroundings, SymbolicLink};

/// Never mounted, and neither is any directory above them: users' files, secrets, and the running
/// system.
const NEVER: [&str; 10] =
    ["/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var"];

/// Nothing below these is mounted either: no interpreter is installed there.
const NEVER_BELOW: [&str; 5] = ["/dev", "/etc", "/proc", "/run", "/sys"];

/// Never mounted as a whole, because many programs share them.
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

/// The same for directories in a home directory.
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

/// The entries that an installation or environment needs. A directory with other entries is not
/// mounted as a whole: next to these may be other environments, package caches, and settings with
/// passwords such as pip.conf, .condarc and etc/npmrc.
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

/// Other entries that may be present, and that are not needed inside.
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

/// The rules for one user.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The home directory as named, and with links resolved.
    homes: Vec<PathBuf>,
}

impl Places {
    pub(super) fn of(surroundings: &Surroundings) -> Places {
        let named = surroundings.home.clone();
        // No path leads into a home directory that cannot be resolved, so no mounted path is in it.
        let real = named.as_ref().and_then(|home| fs::canonicalize(home).ok());
        Places { homes: named.into_iter().chain(real).collect() }
    }

    /// Whether a directory may be mounted with its whole content.
    pub(super) fn allows(&self, directory: &Path) -> bool {
        let covers = |place: &Path| place.starts_with(directory);
        let shared_at_home =
            |home: &PathBuf| SHARED_AT_HOME.iter().any(|place| home.join(place) == directory);
        self.allows_file(directory)
            && !NEVER.iter().chain(&SHARED).any(|place| covers(Path::new(place)))
            && !self.homes.iter().any(|home| covers(home) || shared_at_home(home))
            && directory.parent() != Some(Path::new("/home"))
    }

    /// Whether a file may be mounted.
    pub(super) fn allows_file(&self, file: &Path) -> bool {
        !NEVER_BELOW.iter().any(|place| file.starts_with(place))
            && !self.homes.iter().any(|home| file.starts_with(home.join(".ssh")))
    }

    /// Covers a directory, or only its own entries if it has others; `None` if it may not be
    /// mounted.
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
                // A link with this name that leads elsewhere would expose a path that an attacker
                // chose.
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

/// The binds and links that make a directory visible.
#[derive(Debug, Default)]
pub(super) struct Cover {
    pub(super) binds: Vec<Bind>,
    pub(super) links: Vec<SymbolicLink>,
}

/// The directories of the system's own programs and libraries, and the links to them at the top on
/// distributions that have merged them into `/usr`.
pub(super) fn system() -> Cover {
    let mut cover = Cover::default();
    for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        if let Ok(target) = fs::read_link(&path) {
            cover.links.push(SymbolicLink { at: path, target });
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
    fn directory_with_other_content_is_not_mounted() {
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
    fn single_installation_is_mounted() {
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
