//! Where the record of a sandbox is kept: outside of everything that its programs can see.

use std::path::PathBuf;
use std::sync::Arc;

use stockade_engine::keep_record_apart;
use stockade_policy::Policy;
use stockade_provider::Root;
use stockade_record::{RecordDirectory, Recorder, default_places};

use crate::failure::Problem;

/// Where the caller puts the record: at the user's default place, or in a directory.
pub(crate) type Wanted = (Option<PathBuf>,);

/// The recorder of a sandbox. Hides a directory that programs inside could see, and refuses one
/// that they could change.
pub(crate) fn recorder(
    wanted: Wanted,
    policy: &mut Policy,
    root: &Root,
) -> Result<Arc<Recorder>, Problem> {
    let places = match wanted.0 {
        Some(directory) => {
            let directory = std::path::absolute(&directory).unwrap_or(directory);
            let place = RecordDirectory::named(&directory);
            vec![place.map_err(|error| Problem::invalid(error.to_string(), "pass a directory"))?]
        }
        None => {
            let user = rustix::process::getuid().as_raw();
            default_places(|name| std::env::var_os(name), user)
        }
    };
    let places = keep_record_apart(places, policy, root).map_err(|error| {
        let remedy = error.remedy("pass record=DIRECTORY with another one");
        Problem::invalid(error.to_string(), remedy)
    })?;
    Ok(Arc::new(Recorder::new(places)?))
}
