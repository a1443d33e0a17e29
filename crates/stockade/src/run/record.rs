//! Where the record of a run is kept: outside of everything that the run can see.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use stockade_policy::{
    Access, GuestPath, Policy, SYSTEM, Sourced, WORKSPACE, Workspace, WorkspaceMode,
};
use stockade_provider::{Root, chain};
use stockade_record::{Place, Recorder, WriteError, settle};
use stockade_sys::MountTable;

use crate::Problem;
use crate::args::SandboxArgs;
use crate::audit::places;

/// The rule that a report names for a hidden record.
const HIDDEN: &str = "records are never visible inside";

/// The recorder of a run, or `None` with `--no-record`. Hides a directory that the run could see,
/// and refuses one that it could change.
pub(crate) fn recorder(
    args: &SandboxArgs,
    here: &Path,
    policy: &mut Policy,
    root: &Root,
) -> anyhow::Result<Option<Recorder>> {
    if args.no_record {
        return Ok(None);
    }
    let mut places = places(args.record.as_deref(), here)?;
    let shown = shown(policy, root);
    let is_shown = |path: &PathBuf| {
        shown.iter().any(|shown| path.starts_with(&shown.host) || shown.host.starts_with(path))
    };
    let mounts = MountTable::look().map_err(|error| {
        let message = format!("cannot see where the records would be shown: {error}");
        Problem::new(message, "see that /proc is mounted here")
    })?;
    // Every path to the records in a directory.
    let paths = |place: &Place| mounts.aliases(&real(&place.path()));
    if places.iter().flat_map(paths).any(|path| is_shown(&path)) {
        // A wall can hide only what exists when it is built, so the directory is created now.
        let place = settle(&places).map_err(|error| cannot(&WriteError::Place(error)))?;
        for path in paths(&place) {
            let hidden = keep_apart(&path, &shown)?;
            policy.hide.extend(hidden.into_iter().map(|path| Sourced::built_in(path, HIDDEN)));
        }
        places = vec![place];
    }
    // A record over the `ulimit -f` limit then fails with EFBIG instead of killing this process.
    stockade_sys::ignore_signal(Signal::XFSZ)?;
    let recorder = Recorder::new(places).map_err(|error| cannot(&error))?;
    Ok(Some(recorder))
}

fn cannot(error: &WriteError) -> Problem {
    Problem::new(chain(error), error.remedy())
}

/// A host path that is visible to a run.
pub(super) struct Shown {
    pub(super) host: PathBuf,
    guest: PathBuf,
    pub(super) is_writable: bool,
}

/// The paths inside where the records at a host path must be hidden.
fn keep_apart(path: &Path, shown: &[Shown]) -> Result<Vec<GuestPath>, Problem> {
    let elsewhere = "keep them elsewhere, with --record DIR";
    let mut hidden = Vec::new();
    for Shown { host, guest, is_writable } in shown {
        let below = path.strip_prefix(host);
        if host.starts_with(path) || (*is_writable && below.is_ok()) {
            let (path, host) = (path.display(), host.display());
            let message = format!(
                "the records in {path} could be changed from inside, where {host} is shown"
            );
            return Err(Problem::new(message, elsewhere));
        }
        let Ok(below) = below else { continue };
        let inside = guest.join(below);
        let parsed = inside.to_str().and_then(|path| GuestPath::parse(path).ok());
        hidden.push(parsed.ok_or_else(|| {
            let message = format!("the records cannot be hidden at {}", inside.display());
            Problem::new(message, elsewhere)
        })?);
    }
    Ok(hidden)
}

/// Every host path that a run may see. Interpreter directories are left out: they contain no
/// records unless a user put them there; system directories may.
pub(super) fn shown(policy: &Policy, root: &Root) -> Vec<Shown> {
    let mut shown: Vec<Shown> = policy
        .mounts
        .iter()
        .map(|mount| Shown {
            host: mount.host.clone(),
            guest: PathBuf::from(mount.guest.as_str()),
            is_writable: mount.access == Access::Write,
        })
        .collect();
    if let Workspace::Host { host, mode } = &policy.workspace.value {
        let (host, guest) = (host.clone(), PathBuf::from(WORKSPACE));
        shown.push(Shown { host, guest, is_writable: *mode == WorkspaceMode::Write });
    }
    let at_top = |host: &Path, guest: &Path| Shown {
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
pub(super) fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            // Removes the trailing slash that joining an empty path leaves.
            return real.join(rest).components().collect();
        }
    }
    path.to_owned()
}
