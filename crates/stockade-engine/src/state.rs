//! Checkpoints of a session.
//!
//! ```text
//! checkpoint: no program starts ── pause ── capture ──▶ resume ── publish
//! restore:    no program runs ── compare ── change what differs
//!                                   └── else: build a second sandbox ── fill ──▶ replace the first
//! ```
//! A restore that fails leaves the first sandbox as it was, or ends the session if its files are
//! between two states. The gate, the tools, the record and
//! every limit that counts belong to the session and go on.

mod rewind;
mod transfer;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use stockade_policy::{Limit, Workspace, WorkspaceMode};
use stockade_provider::{Files, ProviderName, Sandbox, SandboxRequest, WritablePlace, chain};
use stockade_record::FileOperation;
use stockade_store::{Checkpoint, Limits, Reference, Store, StoredPlace, Summary};
use tokio::sync::RwLockWriteGuard;
use tokio::time::timeout;

use crate::RunError;
use crate::session::Session;
pub(crate) use rewind::Unfinished;
use rewind::{Rewound, rewind};
use transfer::{blocking, capture, fill};

/// How long programs that start and files that are written may hold up a checkpoint.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to keep in addition to the files.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The name of the checkpoint.
    pub reference: Reference,
    /// The sessions that this one was forked from, the nearest first.
    pub ancestors: Vec<String>,
    /// How the front end builds such a sandbox again.
    pub origin: serde_json::Value,
}

/// What to do with a checkpoint that was made under another policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherPolicy {
    /// Refuse it.
    Refuse,
    /// Take its files into a session with its own policy.
    Accept,
}

/// How long a restore waits for programs that are about to end.
const SETTLED: Duration = Duration::from_millis(500);

impl Session {
    /// Keeps everything that programs can write, apart from directories of the host. Programs are
    /// stopped during the copy. The caller does not drop the future before its end.
    pub async fn checkpoint(&self, store: &Store, kept: Kept) -> Result<Checkpoint, RunError> {
        let result = self.keep(store, &kept).await;
        let bytes = result.as_ref().map_or(0, |checkpoint| checkpoint.bytes);
        self.note("checkpoint", &kept.reference.to_string(), bytes, &result)?;
        result
    }

    /// Brings the files back to those of a checkpoint: changes those that differ, or replaces the
    /// sandbox by another where that is not possible. No program may run. The policy stays that of
    /// this session.
    pub async fn restore(
        &self,
        store: &Store,
        checkpoint: &Checkpoint,
        other: OtherPolicy,
    ) -> Result<(), RunError> {
        let doing = "restore the checkpoint";
        let is_other = checkpoint.policy != self.policy.to_yaml();
        if is_other && other == OtherPolicy::Refuse {
            return Err(refused(
                doing,
                "it was made under another policy",
                "fork it, which brings its policy too, or take only its files with --any-policy",
            ));
        }
        let result = self.replace(doing, Some((store, checkpoint))).await;
        if let (Ok(()), Ok(reference)) = (&result, checkpoint.reference()) {
            self.started_ms.store(checkpoint.started_ms, Ordering::SeqCst);
            self.note("restore", &reference.to_string(), checkpoint.bytes, &result)?;
        }
        result
    }

    /// Replaces the sandbox by a fresh one. No program may run.
    pub async fn discard(&self) -> Result<(), RunError> {
        let started = now_ms();
        let result = self.replace("discard the changes", None).await;
        if result.is_ok() {
            self.started_ms.store(started, Ordering::SeqCst);
            self.note("discard", "/", 0, &result)?;
        }
        result
    }

    /// Writes the files of a checkpoint into the sandbox of a session in which nothing ran yet.
    pub async fn fill(&self, store: &Store, checkpoint: &Checkpoint) -> Result<(), RunError> {
        let result =
            fill(self.sandbox().as_ref().as_ref(), &self.plan.provider, store, checkpoint).await;
        self.started_ms.store(checkpoint.started_ms, Ordering::SeqCst);
        if let Ok(reference) = checkpoint.reference() {
            self.note("fork", &reference.to_string(), checkpoint.bytes, &result)?;
        }
        result
    }

    /// Whether programs are paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    async fn keep(&self, store: &Store, kept: &Kept) -> Result<Checkpoint, RunError> {
        let doing = "make a checkpoint";
        let held = self.lock_changes(doing).await?;
        let sandbox = self.sandbox();
        let files = sandbox.files()?;
        let places = files.places();
        can_keep(files.as_ref(), &self.plan.provider, doing)?;
        let was_paused = self.is_paused();
        let since = Instant::now();
        if !was_paused {
            sandbox.pause().await?;
        }
        // Each place has at most this, and a compressed stream could pretend to have more.
        let disk = self.policy.limits.value(Limit::Disk).unwrap_or(0).saturating_add(1) << 20;
        let bytes = disk.saturating_mul(places.len() as u64);
        let limits = Limits { bytes: bytes.min(Limits::MOST.bytes), ..Limits::MOST };
        let captured = capture(files.as_ref(), store, limits).await;
        let resumed = if was_paused { Ok(()) } else { sandbox.resume().await };
        let paused = since.elapsed();
        drop(held);
        let (builder, summary) = captured?;
        resumed?;
        let Summary { entries, bytes, tree } = summary;
        let checkpoint = Checkpoint {
            version: Checkpoint::VERSION,
            session: kept.reference.session().to_owned(),
            name: kept.reference.name().to_owned(),
            created_ms: now_ms(),
            started_ms: self.started_ms.load(Ordering::SeqCst),
            provider: self.plan.provider.as_str().to_owned(),
            policy: self.policy.to_yaml(),
            places: places.iter().map(place).collect(),
            shared: self.shared(),
            entries,
            bytes,
            stored_bytes: 0,
            left_out: 0,
            paused_us: u64::try_from(paused.as_micros()).unwrap_or(u64::MAX),
            tree,
            imported: false,
            ancestors: kept.ancestors.clone(),
            origin: kept.origin.clone(),
        };
        Ok(blocking(move || builder.publish(checkpoint)).await?)
    }

    async fn replace(
        &self,
        doing: &'static str,
        files: Option<(&Store, &Checkpoint)>,
    ) -> Result<(), RunError> {
        // A program whose client has the answer may still be counted for a moment.
        let ended = async {
            while self.running.count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(SETTLED, ended).await;
        let _held = self.lock_changes(doing).await?;
        if self.running.count() > 0 {
            let remedy = "end them with `stockade kill`, or add --force";
            return Err(refused(doing, "programs run in the session", remedy));
        }
        let old = self.sandbox();
        // Before a second sandbox is built that nothing could fill.
        if files.is_some() {
            can_keep(old.files()?.as_ref(), &self.plan.provider, doing)?;
        }
        let mut wanted = self.wanted.clone();
        let used = old.observe().await.cpu_time.unwrap_or_default();
        let spent = used + *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(most) = self.policy.limits.value(Limit::CpuTime) {
            let left = Duration::from_millis(most).saturating_sub(spent);
            if left.is_zero() {
                let remedy = "create a new session";
                return Err(refused(doing, "its processor time is used up", remedy));
            }
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            let mut policy = (*wanted.policy).clone();
            policy.limits.lower(Limit::CpuTime, left);
            wanted.policy = Arc::new(policy);
        }
        let mut unfinished = None;
        if let (Some((store, checkpoint)), false) = (files, self.is_paused()) {
            match rewind(&old, store, checkpoint).await {
                Rewound::Done => {
                    // As when the sandbox is replaced.
                    self.forwarded.close_all().await;
                    return Ok(());
                }
                Rewound::Unfit => {}
                Rewound::Partly(sandbox) => unfinished = Some(sandbox),
            }
        }
        let was_changed = unfinished.is_some();
        self.rebuild(&wanted, spent, old, files, unfinished).await.map_err(|error| {
            let remedy = "create a new session with `stockade fork --from`";
            let why = chain(&error);
            match was_changed {
                true => refused(doing, &format!("{why}; the session ended, half restored"), remedy),
                false => error,
            }
        })
    }

    /// Builds a second sandbox, fills it, and replaces the first.
    async fn rebuild(
        &self,
        wanted: &SandboxRequest,
        spent: Duration,
        old: Arc<Box<dyn Sandbox>>,
        files: Option<(&Store, &Checkpoint)>,
        unfinished: Option<Unfinished>,
    ) -> Result<(), RunError> {
        let limit = self.provider.most_start();
        let building = timeout(limit, self.provider.create(wanted));
        let new = match building.await {
            Ok(new) => new?,
            Err(_) => return Err(RunError::StartTooLong { limit }),
        };
        if let Some((store, checkpoint)) = files {
            fill(new.as_ref(), &self.plan.provider, store, checkpoint).await?;
        }
        {
            let mut sandbox = self.sandbox.write().unwrap_or_else(PoisonError::into_inner);
            *sandbox = Arc::new(new);
            *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = spent;
            self.is_paused.store(false, Ordering::SeqCst);
        }
        if let Some(unfinished) = unfinished {
            unfinished.release();
        }
        // They lead into the sandbox that ends here.
        self.forwarded.close_all().await;
        self.replaced.send_modify(|count| *count += 1);
        // The task that waits for its loss releases it.
        tokio::task::yield_now().await;
        match Arc::try_unwrap(old) {
            Ok(old) => Ok(old.end().await?),
            // Dropping the last use ends it.
            Err(old) => {
                old.kill().await;
                Ok(())
            }
        }
    }

    /// Waits until no program starts and no file is written.
    async fn lock_changes(
        &self,
        doing: &'static str,
    ) -> Result<RwLockWriteGuard<'_, ()>, RunError> {
        self.record.check()?;
        timeout(PATIENCE, self.change_lock.write()).await.map_err(|_| {
            let reason = "files of the session are being written";
            refused(doing, reason, "try again when the copy has ended")
        })
    }

    /// The directories inside where programs write to the host.
    fn shared(&self) -> Vec<String> {
        let is_written =
            |mount: &&stockade_policy::Mount| mount.access == stockade_policy::Access::Write;
        let mounts = self.policy.mounts.iter().filter(is_written);
        let mut shared: Vec<String> = mounts.map(|mount| mount.guest.to_string()).collect();
        if let Workspace::Host { mode: WorkspaceMode::Write, .. } = &self.policy.workspace.value {
            shared.push(stockade_policy::WORKSPACE.to_owned());
        }
        shared
    }

    fn note<T>(
        &self,
        operation: &str,
        path: &str,
        bytes: u64,
        result: &Result<T, RunError>,
    ) -> Result<(), RunError> {
        let outcome = if result.is_ok() { FileOperation::DONE } else { "failed" }.to_owned();
        let (operation, path) = (operation.to_owned(), path.to_owned());
        self.record.file_operation(FileOperation { operation, path, bytes, outcome })
    }
}

/// The time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Refuses a wall that neither reads nor writes what a checkpoint has.
fn can_keep(files: &dyn Files, wall: &ProviderName, doing: &'static str) -> Result<(), RunError> {
    match files.places().is_empty() {
        false => Ok(()),
        true => {
            let remedy = "use another wall, such as native or docker";
            let why = files.why_no_places();
            Err(refused(doing, &format!("the {wall} wall has no checkpoints: {why}"), remedy))
        }
    }
}

fn place(place: &WritablePlace) -> StoredPlace {
    StoredPlace { path: place.path.to_string(), base: place.base.clone() }
}

fn refused(doing: &'static str, reason: &str, remedy: &'static str) -> RunError {
    RunError::State { doing, reason: reason.to_owned(), remedy }
}
