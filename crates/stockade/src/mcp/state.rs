//! `checkpoint`, `restore` and `diff`.
//!
//! A call names a checkpoint by its name only, and only one that this server made: the store has
//! those of the user's other sessions too, and their files are none of the client's.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_api::{CheckpointView, Reply, Request, RestoreParams};
use stockade_store::{Change, Patch, Reference, Store, flag};

use super::answer::Answer;
use super::sandboxes::Sandboxes;
use super::server::Stop;
use super::tools::{Effect, SandboxTool, stopped};
use crate::Problem;
use crate::args::StateDiffArgs;
use crate::sessions::client;
use crate::state::{place, visit_changes};

/// How many checkpoints a sandbox has at most.
const MOST_CHECKPOINTS: usize = 32;

/// How many changes a difference has, by default and at most.
const CHANGES: usize = 200;
const MOST_CHANGES: usize = 5000;

/// How many bytes of patches a difference has, by default and at most.
const PATCH_BYTES: usize = 64 << 10;
const MOST_PATCH_BYTES: usize = 1 << 20;

/// The checkpoints that a server made of a sandbox. They go with it, unless sandboxes are kept.
pub(super) struct Made {
    session: String,
    /// Those that are in the store.
    names: BTreeSet<String>,
    /// Those that are being made. The store may refuse one because the user has it already.
    making: BTreeSet<String>,
    is_kept: bool,
}

impl Made {
    pub(super) fn new(session: &str, is_kept: bool) -> Made {
        let (names, making) = (BTreeSet::new(), BTreeSet::new());
        Made { session: session.to_owned(), names, making, is_kept }
    }

    /// Takes a place for a checkpoint that will be made.
    fn reserve(&mut self, name: &str) -> Result<(), Problem> {
        if self.names.contains(name) || self.making.contains(name) {
            let message = format!("sandbox {} has a checkpoint {name} already", self.session);
            return Err(Problem::new(message, "choose another name"));
        }
        if self.names.len() + self.making.len() >= MOST_CHECKPOINTS {
            let message = format!(
                "sandbox {} has {MOST_CHECKPOINTS} checkpoints, and no more are allowed",
                self.session
            );
            return Err(Problem::new(message, "go on with those, or create another sandbox"));
        }
        self.making.insert(name.to_owned());
        Ok(())
    }

    /// Ends the making of a checkpoint.
    fn done(&mut self, name: &str, is_made: bool) {
        if self.making.remove(name) && is_made {
            self.names.insert(name.to_owned());
        }
    }

    /// The names, in their order.
    fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }

    /// Refuses a checkpoint that this server did not make.
    fn check(&self, name: &str) -> Result<(), Problem> {
        if self.names.contains(name) {
            return Ok(());
        }
        let message = format!("sandbox {} has no checkpoint {name:?}", self.session);
        let remedy = match self.names.is_empty() {
            true => "make one with the tool `checkpoint` first".to_owned(),
            false => format!("it has {}", self.names().join(", ")),
        };
        Err(Problem::new(message, remedy))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_kept || self.names.is_empty() {
            return;
        }
        let Ok(store) = place::open() else { return };
        self.names.iter().for_each(|name| remove(&store, &self.session, name));
    }
}

fn remove(store: &Store, session: &str, name: &str) {
    if let Ok(reference) = Reference::new(session, name) {
        // Fails if it was removed by hand.
        let _ = store.remove(&reference);
    }
}

pub(super) struct MakeCheckpoint;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointParams {
    /// The sandbox.
    sandbox_id: String,
    /// The name of the checkpoint: letters, digits, `_`, `.` and `-`.
    name: String,
}

/// A checkpoint.
#[derive(Serialize, JsonSchema)]
pub(super) struct MadeView {
    /// The sandbox.
    sandbox_id: String,
    /// The name of the checkpoint.
    name: String,
    /// How many files, directories and links it has.
    entries: u64,
    /// How many bytes of content it has, without holes.
    bytes: u64,
    /// How long programs were stopped, in milliseconds.
    paused_ms: f64,
    /// Directories inside where programs write to the host: they are not kept.
    not_kept: Vec<String>,
}

impl MadeView {
    fn of(sandbox_id: String, view: CheckpointView) -> MadeView {
        MadeView {
            sandbox_id,
            name: view.name,
            entries: view.entries,
            bytes: view.bytes,
            paused_ms: view.paused_us as f64 / 1e3,
            not_kept: view.shared,
        }
    }
}

impl SandboxTool for MakeCheckpoint {
    const NAME: &'static str = "checkpoint";
    const TITLE: &'static str = "Make a checkpoint";
    const DESCRIPTION: &'static str = "Keeps the files of a sandbox as they are now, under a name. \
        The tool restore brings them back, and diff compares with them. Programs are stopped during \
        the copy and go on. A checkpoint ends with its sandbox.";
    const EFFECT: Effect = Effect::Adds;
    type Params = CheckpointParams;
    type Result = MadeView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        CheckpointParams { sandbox_id, name }: CheckpointParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        Reference::new(&sandbox_id, &name).map_err(|error| place::problem(&error))?;
        sandboxes.made(&sandbox_id, |made| made.reserve(&name))??;
        // Goes on after a cancelled call, so that the table knows what the store has.
        let making = tokio::spawn(make(sandboxes, sandbox_id.clone(), name));
        let view = tokio::select! {
            made = making => made.map_err(|error| broken(&error))??,
            () = stop.wait() => return Err(stopped().into()),
        };
        Answer::new(&MadeView::of(sandbox_id, view))
    }
}

/// Makes a checkpoint whose place is reserved.
async fn make(
    sandboxes: Arc<Sandboxes>,
    session: String,
    name: String,
) -> anyhow::Result<CheckpointView> {
    let asked = async {
        let request = Request::Checkpoint { name: name.clone(), store: place::params()? };
        match ask(&session, request).await? {
            Reply::Checkpoint(view) => Ok(view),
            _ => Err(client::confused(&session).into()),
        }
    };
    let made = asked.await;
    let is_known = sandboxes.made(&session, |known| known.done(&name, made.is_ok()));
    if let (Ok(_), Err(_)) = (&made, is_known) {
        // The sandbox was closed meanwhile.
        remove(&place::open()?, &session, &name);
    }
    made
}

pub(super) struct Restore;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreCallParams {
    /// The sandbox.
    sandbox_id: String,
    /// A checkpoint of this sandbox.
    name: String,
    /// Whether running programs, contexts included, are ended first. By default they prevent it.
    #[serde(default)]
    force: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct RestoredView {
    /// The sandbox.
    sandbox_id: String,
    /// The checkpoint whose files it has now.
    name: String,
    /// How many files, directories and links those are.
    entries: u64,
    /// How many bytes of content they have, without holes.
    bytes: u64,
}

impl SandboxTool for Restore {
    const NAME: &'static str = "restore";
    const TITLE: &'static str = "Restore a checkpoint";
    const DESCRIPTION: &'static str = "Brings the files of a sandbox back to one of its checkpoints. \
        What was written after it is lost. Limits that count go on counting.";
    const EFFECT: Effect = Effect::Changes;
    type Params = RestoreCallParams;
    type Result = RestoredView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        RestoreCallParams { sandbox_id, name, force }: RestoreCallParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        sandboxes.made(&sandbox_id, |made| made.check(&name))??;
        let checkpoint = Some(name);
        let params =
            RestoreParams { store: place::params()?, checkpoint, force, any_policy: false };
        let reply = tokio::select! {
            reply = ask(&sandbox_id, Request::Restore(params)) => reply?,
            () = stop.wait() => return Err(stopped().into()),
        };
        let Reply::Checkpoint(view) = reply else {
            return Err(client::confused(&sandbox_id).into());
        };
        let CheckpointView { name, entries, bytes, .. } = view;
        Answer::new(&RestoredView { sandbox_id, name, entries, bytes })
    }
}

pub(super) struct Diff;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffParams {
    /// The sandbox.
    sandbox_id: String,
    /// A checkpoint of this sandbox to compare with; by default, how the workspace started.
    from: Option<String>,
    /// Whether everything that programs can write is compared, and not only /workspace.
    #[serde(default)]
    all: bool,
    /// How many changes at most: 200 by default, 5000 at most.
    limit: Option<usize>,
    /// How many bytes of patches at most: 65536 by default, 1048576 at most.
    max_patch_bytes: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct DiffView {
    /// The sandbox.
    sandbox_id: String,
    /// The checkpoint that it was compared with; absent for how it started.
    from: Option<String>,
    /// The changes.
    changes: Vec<ChangeEntry>,
    /// Whether there are more changes than these.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct ChangeEntry {
    /// The path below /workspace, or with `all` from the root on. Bytes that are not UTF-8 are
    /// replaced.
    path: String,
    /// `added`, `deleted`, `modified` or `replaced`.
    change: String,
    /// Whether it is compared by size and hash only.
    binary: bool,
    /// How many lines were added.
    added: usize,
    /// How many lines were removed.
    removed: usize,
    /// The change as `git diff` prints it; absent if it would exceed `max_patch_bytes`.
    patch: Option<String>,
    /// Why the user is asked before the change is applied to the host, if so.
    flag: Option<String>,
}

impl SandboxTool for Diff {
    const NAME: &'static str = "diff";
    const TITLE: &'static str = "Compare the files";
    const DESCRIPTION: &'static str = "Shows what changed in the workspace of a sandbox since it \
        started, or since one of its checkpoints, as git diff does.";
    const EFFECT: Effect = Effect::Reads;
    type Params = DiffParams;
    type Result = DiffView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: DiffParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        let DiffParams { sandbox_id, from, .. } = &params;
        sandboxes
            .made(sandbox_id, |made| from.as_ref().map(|from| made.check(from)).transpose())??;
        // Reads and compares files, with a checkpoint that goes with the call.
        let comparing = tokio::task::spawn_blocking(move || differences(params));
        let view = tokio::select! {
            compared = comparing => compared.map_err(|error| broken(&error))??,
            () = stop.wait() => return Err(stopped().into()),
        };
        Answer::new(&view)
    }
}

fn differences(params: DiffParams) -> anyhow::Result<DiffView> {
    let DiffParams { sandbox_id, from, all, limit, max_patch_bytes } = params;
    let most = limit.unwrap_or(CHANGES).min(MOST_CHANGES);
    let mut room = max_patch_bytes.unwrap_or(PATCH_BYTES).min(MOST_PATCH_BYTES);
    let session = sandbox_id.clone();
    let args = StateDiffArgs { from: from.clone(), patch: false, all, session };
    let (mut changes, mut truncated) = (Vec::new(), false);
    visit_changes(&args, |change, patch, _, prefix| {
        if changes.len() == most {
            truncated = true;
            return Ok(ControlFlow::Break(()));
        }
        changes.push(entry(change, patch, prefix, &mut room));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(DiffView { sandbox_id, from, changes, truncated })
}

fn entry(change: &Change, patch: &Patch, prefix: &str, room: &mut usize) -> ChangeEntry {
    let fits = patch.text.len() <= *room;
    if fits {
        *room -= patch.text.len();
    }
    ChangeEntry {
        path: format!("{prefix}{}", String::from_utf8_lossy(&change.path)),
        change: change.kind().as_str().to_owned(),
        binary: patch.is_binary,
        added: patch.added,
        removed: patch.removed,
        patch: fits.then(|| patch.text.clone()),
        flag: change.new.as_ref().and_then(|_| flag(&change.path)).map(|why| why.to_string()),
    }
}

/// Sends a request that may take as long as the files are large.
async fn ask(session: &str, request: Request) -> anyhow::Result<Reply> {
    let mut stream = client::open(session, request).await?;
    client::reply(&mut stream, session).await
}

fn broken(error: &tokio::task::JoinError) -> Problem {
    Problem::new(format!("the task of the call failed: {error}"), "report this as a bug")
}
