//! Files that control a run must not be writable from inside it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stockade_engine::{TrustedPaths, real_path, shown_paths};
use stockade_policy::{Policy, SYSTEM};
use stockade_provider::Root;
use stockade_sys::MountTable;

use crate::Problem;

/// The host paths that a run can write, and the mount table to find other paths to them.
pub(crate) struct Writable {
    places: Vec<PathBuf>,
    mounts: MountTable,
}

impl Writable {
    /// The writable paths of a policy.
    pub(crate) fn of(policy: &Policy, root: &Root) -> Result<Writable, Problem> {
        let shown = shown_paths(policy, root).into_iter().filter(|shown| shown.is_writable);
        let places: Vec<PathBuf> = shown.map(|shown| real_path(&shown.host)).collect();
        if places.is_empty() {
            return Ok(Writable { places, mounts: MountTable::default() });
        }
        let mounts = MountTable::look().map_err(|error| {
            let message = format!("cannot read where file systems are mounted: {error}");
            Problem::new(message, "mount /proc")
        })?;
        Ok(Writable { places, mounts })
    }

    /// Refuses files that can be written from inside: at their path, through a symbolic link in it,
    /// through another mount of the same directory, or through a hard link. `decides` names what
    /// the files control, for the message.
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
        // Prefers the file itself over its parent directories, if both are writable.
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

/// Whether a directory may contain a hard link to a file that has several.
fn may_hold_a_name_of(file: &Path, place: &Path) -> bool {
    // The system's own programs have hard links among themselves.
    if SYSTEM.iter().any(|system| file.starts_with(system)) {
        return false;
    }
    let device = |path: &Path| path.metadata().ok().map(|data| data.dev());
    // overlayfs reports the device of a layer for a file, and its own for a directory.
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
