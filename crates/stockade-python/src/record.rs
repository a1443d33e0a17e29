//! Where the record of a sandbox is kept: outside of everything that its programs can see.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stockade_policy::{Policy, Workspace};
use stockade_provider::Root;
use stockade_record::{Place, Recorder, default_places};

use crate::failure::Problem;

/// Where the caller wants the record: at the user's default place, or in a directory.
pub(crate) type Wanted = (Option<PathBuf>,);

/// The recorder of a sandbox. Refuses a directory that programs inside could see.
pub(crate) fn recorder(
    wanted: Wanted,
    policy: &mut Policy,
    root: &Root,
) -> Result<Arc<Recorder>, Problem> {
    let places = match wanted.0 {
        Some(directory) => {
            let directory = std::path::absolute(&directory).unwrap_or(directory);
            let place = Place::named(&directory);
            vec![place.map_err(|error| Problem::invalid(error.to_string(), "pass a directory"))?]
        }
        None => {
            let user = rustix::process::getuid().as_raw();
            default_places(|name| std::env::var_os(name), user)
        }
    };
    let shown = shown(policy, root);
    for place in &places {
        let path = place.path();
        for shown in &shown {
            if overlap(&path, shown) {
                let (path, shown) = (path.display(), shown.display());
                let message =
                    format!("the records in {path} would be visible inside, where {shown} is");
                return Err(Problem::invalid(message, "pass record=DIRECTORY with another one"));
            }
        }
    }
    Ok(Arc::new(Recorder::new(places)?))
}

/// The host directories that the policy makes visible.
fn shown(policy: &Policy, root: &Root) -> Vec<PathBuf> {
    let mut shown: Vec<PathBuf> = policy.mounts.iter().map(|mount| mount.host.clone()).collect();
    if let Workspace::Host { host, .. } = &policy.workspace.value {
        shown.push(host.clone());
    }
    shown.extend(root.directory().map(Path::to_owned));
    shown
}

fn overlap(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let known = path.ancestors().find_map(|above| {
            Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?.to_path_buf()))
        });
        known.map_or_else(|| path.to_path_buf(), |(real, rest)| real.join(rest))
    };
    let (one, other) = (real(one), real(other));
    one.starts_with(&other) || other.starts_with(&one)
}
