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
    let room = parent.join(PREFIX);
    let group = room.join(name.to_string());
    make_directories(&room, &group)?;
    // Only now: the group keeps the room from being removed and made again without controllers.
    for controller in hand_down {
        if let Err(error) = hand_down_to_children(&room, controller) {
            let _ = fs::remove_dir(&group);
            leave_room(&group);
            return Err(error);
        }
    }
    Ok(group)
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

fn make_directories(room: &Path, group: &Path) -> io::Result<()> {
    for _ in 0..TRIES {
        match fs::create_dir(room) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match fs::create_dir(group) {
            Err(error) if files::is_gone(&error) => {}
            Err(error) => {
                leave_room(group);
                return Err(error);
            }
            Ok(()) => return Ok(()),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
