//! What a v2 group hands down to those below it.

use std::fs;
use std::io;
use std::path::Path;

use super::files;

/// Whether something had to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    AlreadySo,
    Made,
}

/// Lets the children of a v2 group use a controller.
pub(super) fn hand_down_to_children(group: &Path, controller: &str) -> io::Result<Change> {
    let file = group.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    match enabled.split_whitespace().any(|word| word == controller) {
        true => Ok(Change::AlreadySo),
        false => files::put(&file, &format!("+{controller}")).map(|()| Change::Made),
    }
}
