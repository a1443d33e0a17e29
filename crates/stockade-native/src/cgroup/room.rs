//! The directory that Stockade's groups share below each parent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files;
use super::name::{GroupName, PREFIX};

/// How often a group is tried when the shared directory vanishes: another Stockade removes it
/// together with its last group.
const TRIES: usize = 100;

/// Makes the directory of a group below a parent. On v2 the named controllers are handed down
/// to it; the parent itself must already hand them on.
pub(super) fn make_group(
    parent: &Path,
    hand_down: &[&str],
    name: &GroupName,
) -> io::Result<PathBuf> {
    let path = parent.join(PREFIX).join(name.to_string());
    let mut made = Err(io::ErrorKind::NotFound.into());
    for _ in 0..TRIES {
        made = make_room(parent, hand_down).and_then(|()| fs::create_dir(&path));
        match &made {
            Err(error) if files::is_gone(error) => {}
            _ => break,
        }
    }
    match made {
        Ok(()) => Ok(path),
        Err(error) => {
            leave_room(&path);
            Err(error)
        }
    }
}

/// Removes the shared directory above a group, if this was the last in it.
pub(super) fn leave_room(group: &Path) {
    if GroupName::of(group).is_some()
        && let Some(room) = group.parent()
    {
        // Busy while other groups are in it.
        let _ = fs::remove_dir(room);
    }
}

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

fn make_room(parent: &Path, hand_down: &[&str]) -> io::Result<()> {
    let room = parent.join(PREFIX);
    match fs::create_dir(&room) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for controller in hand_down {
        hand_down_to_children(&room, controller)?;
    }
    Ok(())
}
