//! Groups that a dead Stockade left behind.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::files;
use super::group::{Directory, Seating};
use super::name::GroupName;
use super::owner::{Life, Realm};
use super::{CgroupError, Group, Hierarchy, Layout};

/// How many directories of a hierarchy are looked at. A host with more is not searched to its end,
/// and the report says so, as it does of a directory that cannot be read.
const MAX_DIRECTORIES: usize = 20_000;

/// How long killing and removing one group may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a sweep found and did.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// The groups of dead owners that are gone now.
    pub removed: Vec<GroupName>,
    /// The groups of dead owners that could not be removed, and why.
    pub failed: Vec<(GroupName, CgroupError)>,
    /// How many groups have a living owner.
    pub alive: usize,
    /// How many groups belong to another pid namespace, which only its own Stockade can judge.
    pub elsewhere: usize,
    /// Whether some hierarchy has more groups than were looked at, or than could be read.
    pub cut_short: bool,
}

/// Kills and removes the groups whose owner is dead.
///
/// The groups of living owners and everything that is not named by Stockade are left alone. Several
/// sweeps at once only share the work.
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

/// The same for the groups below the parents that this process uses itself, which is quick enough
/// for every start. What cannot be removed now is tried again at the next.
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

/// Kills what is inside and removes what is empty, without waiting: a start is not held up by what
/// dies slowly.
fn begin_to_end(directories: Vec<Directory>) {
    let mut group = Group { directories, removed: false };
    let _ = group.kill_all(Instant::now());
    let _ = group.remove_directories(Instant::now());
    // Dropping must not try the same again.
    group.removed = true;
}

/// Our groups in all hierarchies, whoever owns them.
fn find(layout: &Layout, report: &mut SweepReport) -> BTreeMap<GroupName, Vec<Directory>> {
    let mut found: BTreeMap<GroupName, Vec<Directory>> = BTreeMap::new();
    for hierarchy in layout.hierarchies() {
        // A dead owner may have been in another group than this process, such as the scope of an
        // earlier login, so the whole hierarchy is searched.
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

/// Our groups anywhere below a mount, and whether everything was looked at.
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

/// The directories below one. One that is gone meanwhile has none; one that cannot be read may
/// have some, and that is noted.
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
    // Dropping must not try the same again.
    group.removed = true;
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_that_cannot_be_read_cuts_the_search_short_and_one_that_is_gone_does_not() {
        let mut cut_short = false;
        assert!(listed(Path::new("/nonexistent/group"), &mut cut_short).is_empty());
        assert!(!cut_short);
        // A file in place of a directory fails to be listed for another reason than being gone.
        assert!(listed(Path::new("/proc/self/status"), &mut cut_short).is_empty());
        assert!(cut_short);
        let (_, complete) = groups(Path::new("/proc/self/status"));
        assert!(!complete);
    }
}
