//! The host paths that a sandbox shows, resolved before the plan is made.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use stockade_launcher::TreeKind;
use stockade_policy::{Access, Policy, WORKSPACE, Workspace, WorkspaceMode};

use crate::HostFileError;

/// A host path that the policy shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its path inside.
    pub guest: PathBuf,
    /// Whether it is a file or a directory.
    pub kind: TreeKind,
    /// What programs may do with it.
    pub mode: Mode,
}

/// What programs may do with a shown path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is read-only.
    Read,
    /// Changes reach the host.
    Write,
    /// Changes stay in the sandbox.
    Overlay,
}

/// Refuses files that a program must not change, such as the policy, in a writable directory. A
/// read-only mount over them is not enough: it disappears when a host process replaces the file,
/// and it does not cover a second hard link.
///
/// Also refuses every directory of Stockade's own: compiled components, images and checkpoints are
/// executed or trusted by the next run, whether they exist already or not.
pub fn refuse_changeable(files: &[PathBuf], shown: &[Shown]) -> Result<(), HostFileError> {
    refuse_own(&own_directories(|name| std::env::var_os(name)), shown)?;
    for file in files {
        let real = fs::canonicalize(file);
        let paths = || std::iter::once(file).chain(real.as_ref().ok());
        let below = |place: &&Shown| paths().any(|path| path.starts_with(&place.host));
        if let Some(place) = shown.iter().filter(|it| it.mode == Mode::Write).find(below) {
            let reason = format!(
                "it decides what the next run may do, and {} can be written from inside",
                place.host.display()
            );
            let remedy = "keep it outside of what can be written, or show that directory read-only \
                          or with the mode overlay";
            return Err(HostFileError::path(file, reason, remedy));
        }
    }
    Ok(())
}

/// Where Stockade keeps what it executes or trusts later, of this user.
fn own_directories(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let places = [
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
    ];
    let home = path("HOME");
    let of_home = |below: &str| home.as_ref().map(|home| home.join(below));
    let bases = places.iter().flat_map(|(name, below)| [path(name), of_home(below)]);
    let mut own: Vec<PathBuf> = bases.flatten().map(|base| base.join("stockade")).collect();
    own.extend(path("STOCKADE_STORE"));
    own
}

fn refuse_own(own: &[PathBuf], shown: &[Shown]) -> Result<(), HostFileError> {
    for directory in own {
        let real = resolved(directory);
        let overlaps =
            |place: &&Shown| real.starts_with(&place.host) || place.host.starts_with(&real);
        if let Some(place) = shown.iter().filter(|it| it.mode == Mode::Write).find(overlaps) {
            let reason = format!(
                "Stockade executes or trusts what is there, and {} can be written from inside",
                place.host.display()
            );
            let remedy = "show a directory that does not contain it, or show that one read-only or \
                          with the mode overlay";
            return Err(HostFileError::path(directory, reason, remedy));
        }
    }
    Ok(())
}

/// The real path, also of what does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(real) = fs::canonicalize(above) {
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            return real.join(rest);
        }
    }
    path.to_owned()
}

/// Resolves each host path of a policy.
pub fn shown(policy: &Policy) -> Result<Vec<Shown>, HostFileError> {
    let mut shown = Vec::new();
    for mount in &policy.mounts {
        let mode = match mount.access {
            Access::Read => Mode::Read,
            Access::Write => Mode::Write,
        };
        let guest = PathBuf::from(mount.guest.as_str());
        let kind = look(&mount.host)?;
        shown.push(Shown { host: mount.host.clone(), guest, kind, mode });
    }
    if let Workspace::Host { host, mode } = &policy.workspace.value {
        let mode = match mode {
            WorkspaceMode::Read => Mode::Read,
            WorkspaceMode::Overlay => Mode::Overlay,
            WorkspaceMode::Write => Mode::Write,
        };
        let kind = look(host)?;
        if kind != TreeKind::Directory {
            return Err(HostFileError::path(
                host,
                "it is not a directory",
                "name a directory as the workspace",
            ));
        }
        shown.push(Shown { host: host.clone(), guest: PathBuf::from(WORKSPACE), kind, mode });
    }
    shown.sort_by(|a, b| a.guest.cmp(&b.guest));
    Ok(shown)
}

/// Whether a host path is a file or a directory. The path must exist and contain no symbolic link,
/// so that the sandbox shows exactly what the policy names.
pub fn look(path: &Path) -> Result<TreeKind, HostFileError> {
    let real = fs::canonicalize(path).map_err(|error| {
        HostFileError::path(
            path,
            error.to_string(),
            "create it, or correct the path and its permissions",
        )
    })?;
    if real != path {
        let remedy = format!("write its real path, {}", real.display());
        return Err(HostFileError::path(path, "a part of the path is a symbolic link", remedy));
    }
    let found = fs::symlink_metadata(path).map_err(|error| {
        HostFileError::path(path, error.to_string(), "see that it stays in place")
    })?;
    if found.is_dir() {
        Ok(TreeKind::Directory)
    } else if found.is_file() {
        Ok(TreeKind::File)
    } else {
        let reason = "it is neither a file nor a directory";
        Err(HostFileError::path(
            path,
            reason,
            "name a file or a directory; sockets and devices stay outside",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_stockade_executes_from_are_never_writable_inside() {
        let place = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(place.path()).unwrap();
        std::os::unix::fs::symlink(&home, home.join("link")).unwrap();
        let own = |home: &Path| {
            let home = home.to_owned();
            own_directories(move |name| (name == "HOME").then(|| home.clone().into()))
        };
        let refused = |own: &[PathBuf], host: &str, mode| {
            let (host, guest) = (home.join(host), PathBuf::from("/workspace"));
            refuse_own(own, &[Shown { host, guest, kind: TreeKind::Directory, mode }]).is_err()
        };
        // None of them exists: a program could make them.
        for home in [home.clone(), home.join("link")] {
            let own = own(&home);
            for host in ["", ".cache", ".local", ".cache/stockade/wasm/compiled"] {
                assert!(refused(&own, host, Mode::Write), "{host}");
                assert!(!refused(&own, host, Mode::Read), "{host}");
                assert!(!refused(&own, host, Mode::Overlay), "{host}");
            }
            for host in ["work", ".cache/pip", ".cache/stockade-2"] {
                assert!(!refused(&own, host, Mode::Write), "{host}");
            }
        }
        let named =
            own_directories(|name| (name == "STOCKADE_STORE").then(|| home.join("s").into()));
        assert!(refused(&named, "s", Mode::Write));
    }
}
