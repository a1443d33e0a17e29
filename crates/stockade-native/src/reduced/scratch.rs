//! The only writable directory of a sandbox of the reduced wall, on the host's disk.
//!
//! ```text
//! made ──▶ owned by the launcher ──▶ removed after the last process inside has ended
//!   │                  └── launcher and Stockade dead ──▶ swept by the next start
//!   └── dropped before ──▶ removed
//! ```

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, open};
use stockade_cgroup::GroupName;
use stockade_launcher::remove_tree;
use stockade_policy::{Limit, Policy};

use crate::error::StartError;
use crate::id_range::IdRange;

use super::usage::usage;

/// Its subdirectories: the working directory, temporary files and the code.
pub(super) const WORK: &str = "workspace";
pub(super) const TEMPORARY: &str = "tmp";
pub(super) const CODE: &str = "code";
const PARTS: [&str; 3] = [WORK, TEMPORARY, CODE];

/// A scratch directory.
#[derive(Debug)]
pub(crate) struct ScratchDirectory {
    pub(crate) path: PathBuf,
    pub(crate) top: OwnedFd,
    /// Whether this value removes it, not the launcher.
    is_own: bool,
}

impl ScratchDirectory {
    /// Creates one in the host's temporary directory, for a separate user or for this one.
    pub(super) fn make(
        name: &GroupName,
        user: Option<u32>,
    ) -> Result<ScratchDirectory, StartError> {
        let cannot = || StartError::prepare("make a scratch directory in the temporary directory");
        let parent = fs::canonicalize(std::env::temp_dir()).map_err(cannot())?;
        let path = parent.join(name.to_string());
        make_private(&path, None).map_err(cannot())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = open(&path, flags, Mode::empty()).map_err(|error| cannot()(error.into()))?;
        // From here on dropping the value removes the directory if a step fails.
        let scratch = ScratchDirectory { path, top, is_own: true };
        for part in PARTS {
            make_private(&scratch.path.join(part), user).map_err(cannot())?;
        }
        give(&scratch.top, user).map_err(cannot())?;
        Ok(scratch)
    }

    /// The limit that the files in it exceed.
    pub(crate) fn exceeds(&self, policy: &Policy) -> Option<Limit> {
        let most = |limit| policy.limits.value(limit).unwrap_or(u64::MAX);
        // The subdirectories do not count as the program's.
        let inodes = most(Limit::Inodes).saturating_add(PARTS.len() as u64);
        let found = usage(&self.top, inodes);
        if found.inodes > inodes || found.too_deep {
            return Some(Limit::Inodes);
        }
        (found.bytes > most(Limit::Disk).saturating_mul(1 << 20)).then_some(Limit::Disk)
    }

    pub(super) fn part(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// From now on the launcher removes it.
    pub(crate) fn disown(&mut self) {
        self.is_own = false;
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if self.is_own {
            // The next sweep removes what remains.
            let _ = remove_tree(&self.path);
        }
    }
}

/// Removes directories of a Stockade that died together with its launcher. Never touches those of
/// another user; retries a failed removal at the next start.
pub(super) fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_ours = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && belongs(it.uid()))
        };
        if GroupName::is_left_at(&path) && is_ours(&path) {
            let _ = remove_tree(&path);
        }
    }
}

/// Whether a directory of this owner can belong to a sandbox of this user.
fn belongs(user: u32) -> bool {
    let own = rustix::process::geteuid();
    let ranges = IdRange::LOWEST..IdRange::LOWEST + IdRange::RANGES * IdRange::COUNT;
    user == own.as_raw() || (own.is_root() && ranges.contains(&user))
}

fn make_private(path: &Path, user: Option<u32>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    match user {
        Some(user) => std::os::unix::fs::lchown(path, Some(user), Some(user)),
        None => Ok(()),
    }
}

fn give(directory: &OwnedFd, user: Option<u32>) -> io::Result<()> {
    match user {
        Some(user) => Ok(fchown(directory, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?),
        None => Ok(()),
    }
}
