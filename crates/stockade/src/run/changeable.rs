//! Files that decide about a run must not be writable from inside it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stockade_engine::TrustedPaths;
use stockade_policy::{Policy, SYSTEM};
use stockade_provider::Root;
use stockade_sys::MountTable;

use crate::Problem;

use super::record::{real, shown};

/// The host paths that a run can write, and the mounts by which other paths lead to them.
pub(crate) struct Writable {
    places: Vec<PathBuf>,
    mounts: MountTable,
}

impl Writable {
    /// Those of a policy.
    pub(crate) fn of(policy: &Policy, root: &Root) -> Result<Writable, Problem> {
        let shown = shown(policy, root).into_iter().filter(|shown| shown.is_writable);
        let places: Vec<PathBuf> = shown.map(|shown| real(&shown.host)).collect();
        if places.is_empty() {
            return Ok(Writable { places, mounts: MountTable::default() });
        }
        let mounts = MountTable::look().map_err(|error| {
            let message = format!("cannot read where file systems are mounted: {error}");
            Problem::new(message, "mount /proc")
        })?;
        Ok(Writable { places, mounts })
    }

    /// Refuses files that can be written from inside: by their path, by a link on the way to them,
    /// through another mount of the same directory, or by a second name. `decides` says what the
    /// files decide.
    pub(crate) fn refuse(&self, files: &TrustedPaths, decides: &str) -> Result<(), Problem> {
        match self.changeable(files) {
            Some((file, place)) => Err(problem(&file, place, decides)),
            None => Ok(()),
        }
    }

    fn changeable(&self, files: &TrustedPaths) -> Option<(PathBuf, &Path)> {
        let place = |holds: &dyn Fn(&Path) -> bool| {
            self.places.iter().map(PathBuf::as_path).find(|place| holds(place))
        };
        let names = files.names.iter().flat_map(|name| self.mounts.aliases(name));
        let by_name = names.filter_map(|name| {
            let place = place(&|place| name.starts_with(place))?;
            Some((name, place))
        });
        // The file itself, where directories on the way to it can be changed too.
        let by_name = by_name.max_by_key(|(name, _)| name.components().count());
        let by_tree = || {
            files.trees.iter().find_map(|tree| {
                let place = place(&|place| place.starts_with(tree))?;
                Some((tree.clone(), place))
            })
        };
        let by_second_name = || {
            files.linked.iter().find_map(|file| {
                let place = place(&|place| may_hold_a_name_of(file, place))?;
                Some((file.clone(), place))
            })
        };
        by_name.or_else(by_tree).or_else(by_second_name)
    }
}

/// Whether a directory may hold another name of a file that has several.
fn may_hold_a_name_of(file: &Path, place: &Path) -> bool {
    // The system's own programs have further names among themselves.
    if SYSTEM.iter().any(|system| file.starts_with(system)) {
        return false;
    }
    let device = |path: &Path| path.metadata().ok().map(|data| data.dev());
    // Overlays report a file's device as that of a layer, and a directory's as their own.
    let above = file.parent().and_then(device);
    let place = device(place);
    place.is_none() || device(file) == place || above == place
}

fn problem(file: &Path, place: &Path, decides: &str) -> Problem {
    let (file, place) = (file.display(), place.display());
    let message = format!(
        "the program could change {file}, which decides {decides}: {place} can be written from inside"
    );
    let remedy = "keep it, every link to it and every other name of it outside of what can be \
                  written, or show that directory read-only or with the mode overlay";
    Problem::new(message, remedy)
}
