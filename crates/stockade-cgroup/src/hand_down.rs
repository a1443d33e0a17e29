//! Enabling controllers for the children of a v2 group (`cgroup.subtree_control`).

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::files;

/// Whether a write was necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    AlreadySo,
    Made,
}

/// Enables a controller for the children of a v2 group.
pub(super) fn hand_down_to_children(group: &Path, controller: &str) -> io::Result<Change> {
    match hands_down(group, controller)? {
        true => Ok(Change::AlreadySo),
        false => files::put(&group.join(FILE), &format!("+{controller}")).map(|()| Change::Made),
    }
}

/// Whether a controller is enabled for the children of a v2 group, or this process may enable it.
/// Changes nothing.
pub(super) fn may_hand_down(group: &Path, controller: &str) -> io::Result<Change> {
    if !hands_down(group, controller)? {
        accessat(CWD, group.join(FILE), Access::WRITE_OK, AtFlags::EACCESS)?;
    }
    Ok(Change::AlreadySo)
}

/// Whether a controller is enabled for the children of a v2 group.
pub(super) fn hands_down(group: &Path, controller: &str) -> io::Result<bool> {
    let enabled = fs::read_to_string(group.join(FILE))?;
    Ok(enabled.split_whitespace().any(|word| word == controller))
}

const FILE: &str = "cgroup.subtree_control";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_changes_nothing_and_handing_down_enables_the_controller() {
        let group = tempfile::tempdir().unwrap();
        let file = group.path().join(FILE);
        fs::write(&file, "cpu\n").unwrap();
        for (controller, already) in [("cpu", true), ("memory", false)] {
            assert_eq!(hands_down(group.path(), controller).unwrap(), already);
            assert_eq!(may_hand_down(group.path(), controller).unwrap(), Change::AlreadySo);
            assert_eq!(fs::read_to_string(&file).unwrap(), "cpu\n");
        }
        assert_eq!(hand_down_to_children(group.path(), "memory").unwrap(), Change::Made);
        assert!(fs::read_to_string(&file).unwrap().contains("+memory"));
    }

    #[test]
    fn unreadable_group_is_an_error() {
        let group = tempfile::tempdir().unwrap();
        assert!(may_hand_down(group.path(), "cpu").is_err());
    }
}
