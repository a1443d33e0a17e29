//! The commands for checkpoints.

mod apply;
mod diff;
mod fork;
mod keep;
mod look;
pub(crate) mod origin;
mod parcel;
pub(crate) mod place;
mod store;

pub(crate) use apply::apply;
pub(crate) use diff::diff;
#[cfg(feature = "mcp")]
pub(crate) use diff::each as visit_changes;
pub(crate) use fork::fork;
pub(crate) use keep::{checkpoint, checkpoints, discard, restore};
pub(crate) use parcel::{export, import};
pub(crate) use store::store;

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::Value;

use crate::Problem;
use crate::args::{ApplyArgs, StateDiffArgs};

/// Why a checkpoint could not be compared or applied: the message and the remedy.
pub type Refusal = (String, String);

/// What a checkpoint `SESSION/NAME` changed, as `stockade diff --json` prints it, with a patch of
/// each change.
pub fn differences(checkpoint: &str, from: Option<String>, all: bool) -> Result<Value, Refusal> {
    let session = checkpoint.to_owned();
    diff::lines(&StateDiffArgs { from, patch: false, all, session }).map_err(refusal)
}

/// Applies a checkpoint `SESSION/NAME`, as `stockade apply` does.
pub fn apply_checkpoint(
    checkpoint: &str,
    to: Option<PathBuf>,
    only: Vec<OsString>,
    accept: Vec<OsString>,
    dry_run: bool,
) -> Result<Value, Refusal> {
    let session = checkpoint.to_owned();
    apply::lines(&ApplyArgs { only, accept, to, dry_run, session }).map_err(refusal)
}

/// The store of checkpoints of this user.
pub fn checkpoint_store() -> Result<stockade_store::Store, Refusal> {
    place::open().map_err(|problem| refusal(problem.into()))
}

/// The same for the supervisor of a session, as its requests name it.
pub fn checkpoint_store_params() -> Result<stockade_api::StoreParams, Refusal> {
    place::params().map_err(|problem| refusal(problem.into()))
}

fn refusal(error: anyhow::Error) -> Refusal {
    let remedy = error.downcast_ref::<Problem>().map(|problem| problem.remedy.clone());
    (format!("{error:#}"), remedy.unwrap_or_default())
}
