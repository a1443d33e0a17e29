//! The processes in a group.

use std::fs;
use std::path::{Path, PathBuf};

use super::files;
use super::group::{Directory, Seating};
use super::{CgroupError, Controller, Group, Version};

/// The maximum depth of our groups: leaves are direct children of a group, and nothing is below a
/// leaf.
const MAX_DEPTH: usize = 3;

impl Group {
    /// Whether no process is left inside, in any hierarchy. A removed group is empty.
    pub fn is_empty(&self) -> Result<bool, CgroupError> {
        for directory in &self.directories {
            if !directory.is_empty()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a process is left inside, by the hierarchy that kills: one read, and enough for a
    /// leaf, whose processes enter all hierarchies before they execute a program.
    pub fn has_processes(&self) -> Result<bool, CgroupError> {
        Ok(!self.directory(Controller::Kill)?.is_empty()?)
    }
}

impl Directory {
    /// Whether no process is left in the group or below it.
    pub(super) fn is_empty(&self) -> Result<bool, CgroupError> {
        match self.version {
            Version::V1 => Ok(self.processes()?.is_empty()),
            Version::V2 => match files::read_keyed(&self.path.join("cgroup.events"), "populated") {
                Err(CgroupError::Read { source, .. }) if files::is_gone(&source) => Ok(true),
                populated => Ok(populated? == 0),
            },
        }
    }

    /// The processes in the group and below it, read anew. Processes that this pid namespace cannot
    /// see have the number 0.
    pub(super) fn processes(&self) -> Result<Vec<i32>, CgroupError> {
        let mut found = Vec::new();
        for group in self.groups()? {
            let path = group.join("cgroup.procs");
            match fs::read_to_string(&path) {
                Ok(text) => found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
                Err(error) if files::is_gone(&error) => {}
                Err(source) => return Err(CgroupError::Read { path, source }),
            }
        }
        Ok(found)
    }

    /// The group and all groups below it, children last.
    pub(super) fn groups(&self) -> Result<Vec<PathBuf>, CgroupError> {
        let mut found = vec![self.path.clone()];
        if self.seating == Seating::ExecLeaf {
            return Ok(found);
        }
        let mut level = found.clone();
        for _ in 0..MAX_DEPTH {
            level = children_of(&level)?;
            found.extend(level.iter().cloned());
        }
        Ok(found)
    }
}

fn children_of(groups: &[PathBuf]) -> Result<Vec<PathBuf>, CgroupError> {
    let mut found = Vec::new();
    for group in groups {
        found.extend(children(group)?);
    }
    Ok(found)
}

fn children(group: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    match files::directories(group) {
        Ok(children) => Ok(children),
        Err(error) if files::is_gone(&error) => Ok(Vec::new()),
        Err(source) => Err(CgroupError::Read { path: group.to_owned(), source }),
    }
}
