//! What a v2 group hands down to those below it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::files;

/// Whether something had to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    AlreadySo,
    Made,
}

/// Lets the children of a v2 group use a controller.
pub(super) fn hand_down_to_children(group: &Path, controller: &str) -> io::Result<Change> {
    match hands_down(group, controller)? {
        true => Ok(Change::AlreadySo),
        false => files::put(&group.join(FILE), &format!("+{controller}")).map(|()| Change::Made),
    }
}

/// Whether the children of a v2 group can use a controller, or this process may let them. Nothing
/// is changed.
pub(super) fn may_hand_down(group: &Path, controller: &str) -> io::Result<Change> {
    if !hands_down(group, controller)? {
        accessat(CWD, group.join(FILE), Access::WRITE_OK, AtFlags::EACCESS)?;
    }
    Ok(Change::AlreadySo)
}

/// Whether the children of a v2 group can use a controller.
pub(super) fn hands_down(group: &Path, controller: &str) -> io::Result<bool> {
    let enabled = fs::read_to_string(group.join(FILE))?;
    Ok(enabled.split_whitespace().any(|word| word == controller))
}

const FILE: &str = "cgroup.subtree_control";
