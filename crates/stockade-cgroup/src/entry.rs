//! How a process enters a group.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::group::Directory;
use super::{CgroupError, Group, Version};

/// The open files through which a process moves itself into a group.
///
/// The kernel checks the rights of the process that opened them, so a process that dropped its own
/// rights can use them too.
#[derive(Debug)]
pub struct GroupEntry {
    /// The `tasks` files of v1; the process writes `0` to each, which does not wait for RCU. It
    /// must have one thread, because only the writing thread moves.
    pub tasks: Vec<OwnedFd>,
    /// The group in the v2 hierarchy, if it is used.
    pub unified: Option<UnifiedEntry>,
}

/// The two ways to enter a v2 group.
#[derive(Debug)]
pub struct UnifiedEntry {
    /// The directory, for `CLONE_INTO_CGROUP`: immediate, but requires the rights of the cloning
    /// process.
    pub directory: OwnedFd,
    /// `cgroup.procs`, for writing `0`: waits for RCU, about 10 ms on an idle kernel.
    pub procs: OwnedFd,
}

/// The `tasks` file of a v1 group.
#[derive(Debug)]
pub struct Tasks {
    /// Its path.
    pub path: PathBuf,
    /// The open file, writable.
    pub file: OwnedFd,
}

impl Group {
    /// The `tasks` files of v1, open. The first process of a sandbox writes `0` to each: moving
    /// oneself does not wait for RCU, unlike being moved by another process.
    pub fn tasks(&self) -> Result<Vec<Tasks>, CgroupError> {
        let v1 = self.directories.iter().filter(|directory| directory.version == Version::V1);
        let tasks = |directory: &Directory| {
            let path = directory.seat().join("tasks");
            let file = open(&path, OFlags::WRONLY)?.into();
            Ok(Tasks { path, file })
        };
        v1.map(tasks).collect()
    }

    /// The v2 group in which the first process is cloned with `CLONE_INTO_CGROUP`.
    pub fn seat(&self) -> Option<PathBuf> {
        let v2 = self.directories.iter().find(|directory| directory.version == Version::V2);
        v2.map(Directory::seat)
    }

    /// Opens the files that a process needs to enter.
    pub fn entry(&self) -> Result<GroupEntry, CgroupError> {
        let mut entry = GroupEntry { tasks: Vec::new(), unified: None };
        for directory in &self.directories {
            let seat = directory.seat();
            match directory.version {
                Version::V1 => entry.tasks.push(open(&seat.join("tasks"), OFlags::WRONLY)?.into()),
                Version::V2 => {
                    entry.unified = Some(UnifiedEntry {
                        procs: open(&seat.join("cgroup.procs"), OFlags::WRONLY)?.into(),
                        directory: open(&seat, OFlags::PATH | OFlags::DIRECTORY)?.into(),
                    });
                }
            }
        }
        Ok(entry)
    }

    /// The files, one per hierarchy, to which a process with one thread can write `0` to enter.
    pub fn entry_paths(&self) -> Vec<PathBuf> {
        let path = |directory: &Directory| match directory.version {
            Version::V1 => directory.seat().join("tasks"),
            Version::V2 => directory.seat().join("cgroup.procs"),
        };
        self.directories.iter().map(path).collect()
    }
}

fn open(path: &Path, flags: OFlags) -> Result<File, CgroupError> {
    // Sets the access mode by name; the standard library adds O_CLOEXEC.
    let mut options = OpenOptions::new();
    options.read(!flags.contains(OFlags::WRONLY)).write(flags.contains(OFlags::WRONLY));
    let custom = (flags - OFlags::WRONLY).bits().cast_signed();
    let failed = |source| CgroupError::Open { path: path.to_owned(), source };
    options.custom_flags(custom).open(path).map_err(failed)
}
