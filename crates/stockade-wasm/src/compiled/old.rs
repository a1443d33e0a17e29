//! Removes compiled components that no version of Stockade has used for long.
//!
//! Every version of the engine, of its settings, of the component and of the processor has a
//! compiled form of its own. The directory keeps the few that were used last. A process holds a
//! shared lock on the one that it uses, and no locked file is removed.

use std::fs::File;
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FlockOperation, OFlags, Timespec, Timestamps};

use super::Artefacts;
use crate::WasmError;

/// How many compiled components stay: of two versions in turn, each for both walls.
pub(super) const MOST_KEPT: usize = 4;

/// A compiled component, which no process removes while this value exists.
#[derive(Debug)]
pub(crate) struct InUse {
    /// The lock ends with it.
    pub(super) file: File,
}

impl InUse {
    /// Marks an open compiled component as used; `None` if it was removed since it was opened.
    pub(super) fn mark(file: File) -> rustix::io::Result<Option<InUse>> {
        // Waits while another process decides about this file.
        rustix::fs::flock(&file, FlockOperation::LockShared)?;
        if rustix::fs::fstat(&file)?.st_nlink == 0 {
            return Ok(None);
        }
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let unchanged = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let times = Timestamps { last_access: unchanged, last_modification: now };
        // Fails in a read-only place: the time when it was made counts there.
        let _ = rustix::fs::futimens(&file, &times);
        Ok(Some(InUse { file }))
    }
}

impl Artefacts {
    /// Removes all but the compiled components that were used last, and what processes left that
    /// were killed while they wrote. The caller holds the lock of the directory, so no process
    /// writes now.
    pub(super) fn remove_old(&self, most: usize) -> Result<(), WasmError> {
        let mut kept: Vec<(SystemTime, String)> = Vec::new();
        for name in self.names()? {
            if is_leftover(&name) {
                self.unlink(&name)?;
            } else if name.starts_with("python-") && name.ends_with(".cwasm") {
                kept.push((self.last_use(&name)?, name));
            }
        }
        kept.sort();
        let surplus = kept.len().saturating_sub(most);
        for (_, name) in kept.into_iter().take(surplus) {
            let file = self.open_file(&name, OFlags::RDWR)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => self.unlink(&name)?,
                // A process uses it.
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(self.failed("lock", &name, error)),
            }
        }
        Ok(())
    }

    /// The names in the directory.
    pub(super) fn names(&self) -> Result<Vec<String>, WasmError> {
        let failed = |error| self.failed("list", "", error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn last_use(&self, name: &str) -> Result<SystemTime, WasmError> {
        let found = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = found.map_err(|error| self.failed("look at", name, error))?;
        let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
        let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
        Ok(SystemTime::UNIX_EPOCH + std::time::Duration::new(seconds, nanoseconds))
    }

    fn unlink(&self, name: &str) -> Result<(), WasmError> {
        let removed = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        removed.map_err(|error| self.failed("remove", name, error))
    }

    fn failed(&self, doing: &'static str, name: &str, error: rustix::io::Errno) -> WasmError {
        WasmError::File { doing, path: self.path.join(name), source: error.into() }
    }
}

/// Whether a name is one that `keep` and `other` write before they rename: a dot, the id of the
/// process, and a dash.
fn is_leftover(name: &str) -> bool {
    let Some((id, _)) = name.strip_prefix('.').and_then(|rest| rest.split_once('-')) else {
        return false;
    };
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_a_process_left_while_it_wrote_are_leftovers() {
        for name in [".12-from", ".12-to", ".7-python-aa-bb-cc.cwasm"] {
            assert!(is_leftover(name), "{name}");
        }
        for name in [".lock", ".", "..", ".-x", ".12", ".x12-from", "python-aa-bb-cc.cwasm"] {
            assert!(!is_leftover(name), "{name}");
        }
    }
}
