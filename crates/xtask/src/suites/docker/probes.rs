//! The probes that attack a wall from inside, in containers.

use std::path::Path;

use anyhow::{Result, bail};
use stockade_testing::engine;

use super::super::probes::prepare;
use crate::program::Finished;

/// Runs every probe with a runtime of the engine in a directory.
pub(super) fn run(root: &Path, directory: &Path, runtime: &str) -> Result<Finished> {
    let Ok(built) = prepare(root)? else {
        bail!("the probes need the native wall for their controls");
    };
    let address = engine::address(directory);
    built.harness("probes", None, &[("STOCKADE_RUNTIME", runtime), ("DOCKER_HOST", &address)])
}
