//! Removes groups that a dead Stockade left behind.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::files;
use super::group::{Directory, Seating};
use super::name::GroupName;
use super::owner::{Life, Realm};
use super::{CgroupError, Group, Hierarchy, Layout};

/// The most directories of a hierarchy to search. The report marks a search of more directories as
/// incomplete, and also one that meets an unreadable directory.
const MAX_DIRECTORIES: usize = 20_000;

/// How long killing and removing one group may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// The groups of dead owners that were removed.
    pub removed: Vec<GroupName>,
    /// The groups of dead owners that could not be removed, and why.
    pub failed: Vec<(GroupName, CgroupError)>,
    /// How many groups have a living owner.
    pub alive: usize,
    /// How many groups belong to another pid namespace; only a Stockade in that namespace can judge
    /// them.
    pub elsewhere: usize,
    /// Whether some hierarchy has more groups than were searched, or unreadable ones.
    pub cut_short: bool,
}

/// Kills and removes the groups whose owner is dead.
///
/// Leaves alone the groups of living owners and every group that Stockade did not name. Concurrent
/// sweeps share the work.
pub fn sweep(layout: &Layout) -> Result<SweepReport, CgroupError> {
    let here = Realm::current()
        .map_err(|source| CgroupError::Read { path: "/proc/self/ns".into(), source })?;
    let mut report = SweepReport::default();
    for (name, directories) in find(layout, &mut report) {
        match name.owner.life(here) {
            Life::Alive => report.alive += 1,
            Life::Elsewhere => report.elsewhere += 1,
            Life::Dead => match end(directories) {
                Ok(()) => report.removed.push(name),
                Err(error) => report.failed.push((name, error)),
            },
        }
    }
    Ok(report)
}

/// Sweeps only below the parents that this process uses itself, which is fast enough for every
/// start. The next start retries what cannot be removed now.
pub fn sweep_parents(layout: &Layout) {
    let Ok(here) = Realm::current() else { return };
    let mut found: BTreeMap<GroupName, Vec<Directory>> = BTreeMap::new();
    for hierarchy in layout.hierarchies() {
        for path in listed(&hierarchy.parent, &mut false) {
            collect(hierarchy, path, &mut found);
        }
    }
    for (name, directories) in found {
        if name.owner.life(here) == Life::Dead {
            begin_to_end(directories);
        }
    }
}

/// Sends the kill and removes empty groups, without waiting: slowly dying processes do not delay a
/// start.
fn begin_to_end(directories: Vec<Directory>) {
    let mut group = Group { directories, removed: false };
    let _ = group.kill_all(Instant::now());
    let _ = group.remove_directories(Instant::now());
    // Dropping must not repeat this.
    group.removed = true;
}

/// Our groups in all hierarchies, of any owner.
fn find(layout: &Layout, report: &mut SweepReport) -> BTreeMap<GroupName, Vec<Directory>> {
    let mut found: BTreeMap<GroupName, Vec<Directory>> = BTreeMap::new();
    for hierarchy in layout.hierarchies() {
        // A dead owner may have been in another group than this process, such as the scope of an
        // earlier login, so this searches the whole hierarchy.
        let (groups, complete) = groups(&hierarchy.mount);
        report.cut_short |= !complete;
        for path in groups {
            collect(hierarchy, path, &mut found);
        }
    }
    found
}

fn collect(hierarchy: &Hierarchy, path: PathBuf, found: &mut BTreeMap<GroupName, Vec<Directory>>) {
    if let Some(name) = GroupName::of(&path) {
        found.entry(name).or_default().push(Directory {
            version: hierarchy.version,
            path,
            controllers: hierarchy.controllers.clone(),
            seating: Seating::Group,
        });
    }
}

/// Our groups anywhere below a mount, and whether the search was complete.
fn groups(mount: &Path) -> (Vec<PathBuf>, bool) {
    let mut found = Vec::new();
    let mut ahead = VecDeque::from([mount.to_owned()]);
    let mut budget = MAX_DIRECTORIES;
    let mut cut_short = false;
    while let Some(directory) = ahead.pop_front() {
        if budget == 0 {
            return (found, false);
        }
        budget -= 1;
        for child in listed(&directory, &mut cut_short) {
            match GroupName::of(&child).is_some() {
                true => found.push(child),
                false => ahead.push_back(child),
            }
        }
    }
    (found, !cut_short)
}

/// The subdirectories. A removed directory has none; an unreadable one sets `cut_short`.
fn listed(directory: &Path, cut_short: &mut bool) -> Vec<PathBuf> {
    match files::directories(directory) {
        Ok(children) => children,
        Err(error) => {
            *cut_short |= !files::is_gone(&error);
            Vec::new()
        }
    }
}

fn end(directories: Vec<Directory>) -> Result<(), CgroupError> {
    let mut group = Group { directories, removed: false };
    let ended = group
        .kill_all(Instant::now() + PATIENCE)
        .and_then(|()| group.remove_directories(Instant::now() + PATIENCE));
    // Dropping must not repeat this.
    group.removed = true;
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_directory_cuts_the_search_short_and_a_removed_one_does_not() {
        let mut cut_short = false;
        assert!(listed(Path::new("/nonexistent/group"), &mut cut_short).is_empty());
        assert!(!cut_short);
        // Listing a file fails with another error than listing a removed directory.
        assert!(listed(Path::new("/proc/self/status"), &mut cut_short).is_empty());
        assert!(cut_short);
        let (_, complete) = groups(Path::new("/proc/self/status"));
        assert!(!complete);
    }
}
