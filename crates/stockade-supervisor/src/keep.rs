//! Keeps and restores the files of a session.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stockade_api::{CheckpointView, Failure, Reply, RestoreParams, StoreParams};
use stockade_engine::{Kept, OtherPolicy, RunError};
use stockade_provider::chain;
use stockade_store::{Checkpoint, Reference, Store, StoreError};
use tokio::time::timeout;

use crate::connection::of_run;
use crate::supervisor::Shared;

/// Where a session comes from, for its checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The sessions that it was forked from, the nearest first.
    pub ancestors: Vec<String>,
    /// How the front end builds such a session again.
    pub recipe: serde_json::Value,
}

/// How long killed programs may take to end.
const ENDED: Duration = Duration::from_secs(5);

pub(crate) async fn checkpoint(shared: &Arc<Shared>, name: &str, params: &StoreParams) -> Reply {
    let prepared = Reference::new(&shared.name, name).and_then(|it| Ok((it, store(params)?)));
    let (reference, store) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return failed(&error),
    };
    let Origin { ancestors, recipe } = shared.origin.clone();
    let kept = Kept { reference, ancestors, origin: recipe };
    match shared.session.checkpoint(&store, kept).await {
        Ok(checkpoint) => Reply::Checkpoint(view(&checkpoint)),
        Err(error) => Reply::Failed(of_run(&error)),
    }
}

pub(crate) async fn restore(shared: &Arc<Shared>, params: &RestoreParams) -> Reply {
    let found = store(&params.store).and_then(|store| {
        let find = |text| store.find(&shared.name, &shared.origin.ancestors, text);
        let checkpoint = params.checkpoint.as_deref().map(find).transpose()?;
        Ok((store, checkpoint))
    });
    let (store, checkpoint) = match found {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    if params.force {
        shared.executions.kill_all().await;
        // The session refuses if a program still runs.
        let _ = timeout(ENDED, shared.executions.all_ended()).await;
    }
    let other = if params.any_policy { OtherPolicy::Accept } else { OtherPolicy::Refuse };
    let done: Result<(), RunError> = match &checkpoint {
        Some(checkpoint) => shared.session.restore(&store, checkpoint, other).await,
        None => shared.session.discard().await,
    };
    match (done, checkpoint) {
        (Ok(()), Some(checkpoint)) => Reply::Checkpoint(view(&checkpoint)),
        (Ok(()), None) => Reply::Done,
        (Err(error), _) => Reply::Failed(of_run(&error)),
    }
}

/// A checkpoint as clients see it.
pub fn view(checkpoint: &Checkpoint) -> CheckpointView {
    let Checkpoint { session, name, .. } = checkpoint;
    CheckpointView {
        reference: format!("{session}/{name}"),
        session: session.clone(),
        name: name.clone(),
        created_ms: checkpoint.created_ms,
        provider: checkpoint.provider.clone(),
        entries: checkpoint.entries,
        bytes: checkpoint.bytes,
        stored_bytes: checkpoint.stored_bytes,
        paused_us: checkpoint.paused_us,
        shared: checkpoint.shared.clone(),
    }
}

fn store(params: &StoreParams) -> Result<Store, StoreError> {
    let directory = Path::new(OsStr::from_bytes(params.directory.as_bytes()));
    Ok(Store::open(directory)?.with_quota(params.quota))
}

fn failed(error: &StoreError) -> Reply {
    Reply::Failed(Failure { message: chain(error), remedy: error.remedy() })
}
