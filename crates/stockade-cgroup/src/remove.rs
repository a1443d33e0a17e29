//! Removes the directories of a group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::files;
use super::group::Seating;
use super::{CgroupError, Controller, Group, Version};

/// How long dropping a group may spend on each of killing and removing.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

impl Group {
    /// Removes the group's directories, leaves first. Ignores those that are already gone.
    ///
    /// The kernel may report EBUSY for a moment after the last process has ended, so this retries
    /// until the deadline.
    pub fn remove(mut self, deadline: Instant) -> Result<(), CgroupError> {
        self.remove_directories(deadline)
    }

    /// Like [`Group::remove`], for a group that others still read: they then find it gone.
    pub fn remove_shared(&self, deadline: Instant) -> Result<(), CgroupError> {
        for directory in &self.directories {
            for group in directory.groups()?.iter().rev() {
                remove_group(group, deadline)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_directories(&mut self, deadline: Instant) -> Result<(), CgroupError> {
        self.remove_shared(deadline)?;
        self.removed = true;
        Ok(())
    }
}

/// The remaining work after a group's last process has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The files to write `1` to, which kills all processes inside.
    pub kill: Vec<PathBuf>,
    /// The group in the v1 hierarchy whose leaves may be frozen.
    pub freezer: Option<PathBuf>,
    /// The group's directories, leaves first.
    pub directories: Vec<PathBuf>,
}

impl Group {
    /// What another process must do to remove this group. Leaves of executions may still be in it.
    pub fn removal(&self) -> Removal {
        let mut removal = Removal::default();
        for directory in &self.directories {
            if directory.version == Version::V2 && directory.has(Controller::Kill) {
                removal.kill.push(directory.path.join("cgroup.kill"));
            }
            if directory.version == Version::V1 && directory.has(Controller::Kill) {
                removal.freezer = Some(directory.path.clone());
            }
            if directory.seating == Seating::GuestLeaf {
                removal.directories.push(directory.seat());
            }
            removal.directories.push(directory.path.clone());
        }
        removal
    }

    /// Leaves the removal to another process. Dropping the group then does nothing; its counts can
    /// be read until it is removed.
    pub fn disown(&mut self) {
        self.removed = true;
    }

    /// Kills the processes inside and removes the group, if the other process can no longer do
    /// that.
    pub fn take_back(mut self) -> Result<(), CgroupError> {
        self.kill_all(Instant::now() + DROP_PATIENCE)?;
        self.remove_directories(Instant::now() + DROP_PATIENCE)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.removed {
            // The next sweep finds what is left after this.
            let _ = self.kill_all(Instant::now() + DROP_PATIENCE);
            let _ = self.remove_directories(Instant::now() + DROP_PATIENCE);
        }
    }
}

/// Removes one directory with `rmdir`, which fails if the group has child groups or processes. The
/// kernel removes the files of a group.
fn remove_group(path: &Path, deadline: Instant) -> Result<(), CgroupError> {
    let mut pause = Duration::from_micros(100);
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if files::is_gone(&error) => return Ok(()),
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
            }
            Err(source) => return Err(CgroupError::Remove { path: path.to_owned(), source }),
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::BUSY | Errno::NOTEMPTY))
}
