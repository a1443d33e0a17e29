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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_hands_nothing_down_and_handing_down_does() {
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
    fn group_that_cannot_be_read_is_an_error() {
        let group = tempfile::tempdir().unwrap();
        assert!(may_hand_down(group.path(), "cpu").is_err());
    }
}
