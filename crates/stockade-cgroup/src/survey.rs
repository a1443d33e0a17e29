//! Finds where the hierarchies are mounted and where this process is in them. Pure.

use std::path::{Component, Path, PathBuf};

use stockade_sys::unescape_path;

use super::{Controller, Version};

/// A mounted hierarchy with usable controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) version: Version,
    /// On v1, the controllers of the hierarchy. On v2 the files of each group list them.
    pub(super) controllers: Vec<Controller>,
    pub(super) point: PathBuf,
    pub(super) access: Access,
    /// The groups below which ours could be created, best first.
    ///
    /// On v1 only the group of this process, so that limits set on Stockade also apply to its
    /// sandboxes. A v2 group with processes cannot enable controllers for its children, so there
    /// its ancestors follow, nearest first.
    pub(super) parents: Vec<PathBuf>,
}

/// How a hierarchy is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    ReadOnly,
    Writable,
}

/// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`. See proc_pid_mountinfo(5) and cgroups(7).
pub(super) fn survey(mountinfo: &str, membership: &str) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for (mount, root) in mountinfo.lines().filter_map(mount) {
        let mount = Mount { parents: parents(&mount, &root, membership), ..mount };
        let same = |other: &&mut Mount| {
            (other.version, &other.controllers) == (mount.version, &mount.controllers)
        };
        match mounts.iter_mut().find(same) {
            // One hierarchy can be mounted several times.
            Some(other) if other.access < mount.access => *other = mount,
            Some(_) => {}
            None => mounts.push(mount),
        }
    }
    mounts
}

/// Parses one line of mountinfo; also returns the path that is the root of the mount.
fn mount(line: &str) -> Option<(Mount, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point, options) = (before.next()?, before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, super_options) = (after.next()?, after.nth(1)?);
    let (version, controllers) = match kind {
        "cgroup" => (Version::V1, v1_controllers(super_options)),
        "cgroup2" => (Version::V2, Vec::new()),
        _ => return None,
    };
    if version == Version::V1 && controllers.is_empty() {
        return None;
    }
    let read_only = |options: &str| options.split(',').any(|option| option == "ro");
    let access = match read_only(options) || read_only(super_options) {
        true => Access::ReadOnly,
        false => Access::Writable,
    };
    let point = unescape_path(point);
    Some((Mount { version, controllers, point, access, parents: Vec::new() }, unescape_path(root)))
}

fn v1_controllers(super_options: &str) -> Vec<Controller> {
    let names: Vec<&str> = super_options.split(',').collect();
    Controller::ALL.into_iter().filter(|it| names.contains(&it.v1_name())).collect()
}

fn parents(mount: &Mount, root: &Path, membership: &str) -> Vec<PathBuf> {
    // A group outside the mount, or outside the cgroup namespace (`/..`), has no path here; the top
    // of the mount is the nearest group that has one.
    let inside = |path: &&Path| {
        path.components().all(|part| matches!(part, Component::Normal(_)))
            && path.components().next().is_some()
    };
    let own = own_group(mount, membership);
    let relative = own.as_deref().and_then(|own| own.strip_prefix(root).ok()).filter(inside);
    let own = match relative {
        Some(relative) => mount.point.join(relative),
        None => mount.point.clone(),
    };
    match mount.version {
        Version::V1 => vec![own],
        Version::V2 => {
            let within = |path: &&Path| path.starts_with(&mount.point);
            own.ancestors().take_while(within).map(Path::to_owned).collect()
        }
    }
}

/// The path of this process's group in a hierarchy, from lines `id:controllers:path`.
fn own_group(mount: &Mount, membership: &str) -> Option<PathBuf> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let here = match mount.version {
            Version::V1 => {
                let listed = |it: &Controller| names.split(',').any(|name| name == it.v1_name());
                mount.controllers.iter().any(listed)
            }
            Version::V2 => id == "0" && names.is_empty(),
        };
        here.then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
