//! Where the record of a run is kept: outside of everything that the run can see.

use std::path::Path;

use rustix::process::Signal;
use stockade_engine::keep_record_apart;
use stockade_policy::Policy;
use stockade_provider::{Root, chain};
use stockade_record::Recorder;

use crate::Problem;
use crate::args::SandboxArgs;
use crate::audit::places;

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
    let places = places(args.record.as_deref(), here)?;
    let places = keep_record_apart(places, policy, root).map_err(|error| {
        let remedy = error.remedy("keep them elsewhere, with --record DIR");
        Problem::new(chain(&error), remedy)
    })?;
    // A record over the `ulimit -f` limit then fails with EFBIG instead of killing this process.
    stockade_sys::ignore_signal(Signal::XFSZ)?;
    let recorder = Recorder::new(places);
    Ok(Some(recorder.map_err(|error| Problem::new(chain(&error), error.remedy()))?))
}
