//! The host paths that a sandbox shows, resolved before the plan is made.

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
pub fn refuse_changeable(files: &[PathBuf], shown: &[Shown]) -> Result<(), HostFileError> {
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
