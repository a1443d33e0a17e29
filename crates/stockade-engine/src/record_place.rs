//! Keeps the record of a sandbox outside of everything that its programs can see or change.

use std::io;
use std::path::{Path, PathBuf};

use stockade_policy::{
    Access, GuestPath, Policy, SYSTEM, Sourced, WORKSPACE, Workspace, WorkspaceMode,
};
use stockade_provider::Root;
use stockade_record::{RecordDirectory, WriteError, settle};
use stockade_sys::MountTable;

/// The rule that a report names for a hidden record.
const HIDDEN: &str = "records are never visible inside";

/// A record cannot be kept apart from its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum RecordPlaceError {
    /// The mounts of this process cannot be read.
    #[error("cannot see where the records would be shown: {0}")]
    Mounts(io::Error),
    /// No place can be used.
    #[error(transparent)]
    Place(WriteError),
    /// Programs could change the record.
    #[error(
        "the records in {} could be changed from inside, where {} is shown",
        path.display(),
        host.display()
    )]
    Changeable {
        /// Where the record would be.
        path: PathBuf,
        /// What is shown.
        host: PathBuf,
    },
    /// The path inside is not one that a wall can hide.
    #[error("the records cannot be hidden at {}", path.display())]
    NotHidden {
        /// The path inside.
        path: PathBuf,
    },
}

impl RecordPlaceError {
    /// What to do; `elsewhere` is how the caller names another directory.
    pub fn remedy(&self, elsewhere: &str) -> String {
        match self {
            RecordPlaceError::Mounts(_) => "see that /proc is mounted here".to_owned(),
            RecordPlaceError::Place(error) => error.remedy().to_owned(),
            RecordPlaceError::Changeable { .. } | RecordPlaceError::NotHidden { .. } => {
                elsewhere.to_owned()
            }
        }
    }
}

/// The places where a record can be kept. Hides a directory that programs could see in the policy,
/// and refuses one that they could change.
pub fn keep_record_apart(
    mut places: Vec<RecordDirectory>,
    policy: &mut Policy,
    root: &Root,
) -> Result<Vec<RecordDirectory>, RecordPlaceError> {
    let shown = shown_paths(policy, root);
    let is_shown = |path: &PathBuf| {
        shown.iter().any(|shown| path.starts_with(&shown.host) || shown.host.starts_with(path))
    };
    let mounts = MountTable::look().map_err(RecordPlaceError::Mounts)?;
    // Every path to the records in a directory.
    let paths = |place: &RecordDirectory| mounts.aliases(&real_path(&place.path()));
    if places.iter().flat_map(paths).any(|path| is_shown(&path)) {
        // A wall can hide only what exists when it is built, so the directory is created now.
        let place = settle(&places);
        let place = place.map_err(|error| RecordPlaceError::Place(WriteError::Place(error)))?;
        for path in paths(&place) {
            let hidden = hidden(&path, &shown)?;
            policy.hide.extend(hidden.into_iter().map(|path| Sourced::built_in(path, HIDDEN)));
        }
        places = vec![place];
    }
    Ok(places)
}

/// A host path that is visible inside.
#[derive(Clone, Debug)]
pub struct ShownPath {
    /// The path on the host.
    pub host: PathBuf,
    guest: PathBuf,
    /// Whether programs can change it.
    pub is_writable: bool,
}

/// The paths inside where the records at a host path must be hidden.
fn hidden(path: &Path, shown: &[ShownPath]) -> Result<Vec<GuestPath>, RecordPlaceError> {
    let mut hidden = Vec::new();
    for ShownPath { host, guest, is_writable } in shown {
        let below = path.strip_prefix(host);
        if host.starts_with(path) || (*is_writable && below.is_ok()) {
            let (path, host) = (path.to_owned(), host.clone());
            return Err(RecordPlaceError::Changeable { path, host });
        }
        let Ok(below) = below else { continue };
        let path = guest.join(below);
        let parsed = path.to_str().and_then(|path| GuestPath::parse(path).ok());
        hidden.push(parsed.ok_or(RecordPlaceError::NotHidden { path })?);
    }
    Ok(hidden)
}

/// Every host path that programs may see. Interpreter directories are left out: they contain no
/// records unless a user put them there; system directories may.
pub fn shown_paths(policy: &Policy, root: &Root) -> Vec<ShownPath> {
    let mut shown: Vec<ShownPath> = policy
        .mounts
        .iter()
        .map(|mount| ShownPath {
            host: mount.host.clone(),
            guest: PathBuf::from(mount.guest.as_str()),
            is_writable: mount.access == Access::Write,
        })
        .collect();
    if let Workspace::Host { host, mode } = &policy.workspace.value {
        let (host, guest) = (host.clone(), PathBuf::from(WORKSPACE));
        shown.push(ShownPath { host, guest, is_writable: *mode == WorkspaceMode::Write });
    }
    let at_top = |host: &Path, guest: &Path| ShownPath {
        host: host.to_owned(),
        guest: guest.to_owned(),
        is_writable: false,
    };
    match root {
        Root::Standard => {
            shown.extend(SYSTEM.iter().map(Path::new).map(|path| at_top(path, path)));
        }
        // An image of an engine contains no host files.
        Root::Directory(_) | Root::Image(_) => {
            shown.extend(root.directory().map(|directory| at_top(directory, Path::new("/"))));
        }
    }
    shown
}

/// A path with symbolic links resolved, as far as it exists.
pub fn real_path(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            // Removes the trailing slash that joining an empty path leaves.
            return real.join(rest).components().collect();
        }
    }
    path.to_owned()
}
