//! The host directories that a policy mounts.

use std::path::PathBuf;

use stockade_hostfiles::{HostFileError, Mode, refuse_changeable, shown};
use stockade_launcher::TreeKind;
use stockade_policy::WORKSPACE;
use stockade_provider::SandboxRequest;

use crate::WasmError;

/// The largest file that is mounted by itself; it is copied into memory.
const MAX_FILE: u64 = 64 << 20;

/// What a policy mounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    pub(crate) directories: Vec<MountedDirectory>,
    /// Read-only files: the path inside and the content.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

/// One directory.
#[derive(Clone, Debug)]
pub(crate) struct MountedDirectory {
    pub(crate) host: PathBuf,
    /// An absolute path inside.
    pub(crate) guest: String,
    pub(crate) is_writable: bool,
}

impl Mounts {
    /// Finds what a policy mounts, and refuses what this wall cannot mount.
    pub(crate) fn of(request: &SandboxRequest) -> Result<Mounts, WasmError> {
        let shown = shown(&request.policy).map_err(host_file)?;
        refuse_changeable(&request.protected, &shown).map_err(host_file)?;
        let mut mounts = Mounts::default();
        for place in shown {
            let refused = |why| WasmError::Mount { path: place.host.clone(), why };
            let guest = place.guest.to_str().ok_or_else(|| refused("its path is not UTF-8"))?;
            match (place.kind, place.mode) {
                (_, Mode::Overlay) => {
                    return Err(refused("this wall has no private layer over a host directory"));
                }
                (TreeKind::Directory, mode) => mounts.directories.push(MountedDirectory {
                    host: place.host.clone(),
                    guest: guest.to_owned(),
                    is_writable: mode == Mode::Write,
                }),
                (TreeKind::File, Mode::Read) => {
                    let content = read(&place.host)?;
                    mounts.files.push((guest.to_owned(), content));
                }
                (TreeKind::File, Mode::Write) => {
                    return Err(refused("a single file cannot be writable; mount its directory"));
                }
            }
        }
        mounts.refuse_nested()?;
        Ok(mounts)
    }

    /// Whether the policy mounts the workspace.
    pub(crate) fn has_workspace(&self) -> bool {
        self.directories.iter().any(|mount| mount.guest == WORKSPACE)
    }

    /// The mount that has a path, if one has.
    pub(crate) fn above(&self, path: &str) -> Option<&MountedDirectory> {
        self.directories.iter().find(|mount| is_below(path, &mount.guest))
    }

    /// Refuses a mount below another one: programs reach the outer directory also by `..`, so that
    /// the inner one would not cover it.
    fn refuse_nested(&self) -> Result<(), WasmError> {
        for outer in &self.directories {
            let below = |guest: &str| guest != outer.guest && is_below(guest, &outer.guest);
            let inner = self.directories.iter().find(|inner| below(&inner.guest));
            let is_nested = inner.is_some() || self.files.iter().any(|(guest, _)| below(guest));
            if is_nested {
                let why = "something else is mounted below it";
                return Err(WasmError::Mount { path: outer.host.clone(), why });
            }
        }
        Ok(())
    }
}

/// Whether a path is a directory or below it.
fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read(host: &std::path::Path) -> Result<Vec<u8>, WasmError> {
    let failed = |source| WasmError::File { doing: "read", path: host.to_owned(), source };
    let length = std::fs::metadata(host).map_err(failed)?.len();
    if length > MAX_FILE {
        let why = "a single file of more than 64 MiB; mount its directory";
        return Err(WasmError::Mount { path: host.to_owned(), why });
    }
    std::fs::read(host).map_err(failed)
}

fn host_file(error: HostFileError) -> WasmError {
    WasmError::HostFile { source: error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_below_a_directory_by_whole_names() {
        assert!(is_below("/a/b", "/a") && is_below("/a", "/a") && is_below("/a/b", "/"));
        assert!(!is_below("/ab", "/a") && !is_below("/", "/a"));
    }
}
