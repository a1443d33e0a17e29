//! Brings what programs wrote in writable directories to the host.
//!
//! ```text
//! a program's end ── no program starts ── pause ── the layers' changes ──▶ resume
//!                                            │    └──▶ deliver: each file complete, in one rename
//!                                            └── too slow: resume, and the machine ends
//! ```

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stockade_archive::Limits;
use stockade_archive::tree::{Target, deliver};
use stockade_carrier::Link;
use stockade_policy::{Limit, Policy};
use stockade_provider::{Error, FileBytes, FilePath, Files, WritablePlace};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::io::SyncIoBridge;

use crate::QemuError;
use crate::stops::Stops;

/// How long a copy may take. The guest may be hostile by then.
pub(crate) const MOST: Duration = Duration::from_secs(300);

/// The writable directories of a sandbox.
pub(crate) struct Outputs {
    /// The guest's files, with the directories as their places.
    files: Arc<dyn Files>,
    /// The directories' paths inside.
    paths: Vec<String>,
    targets: Arc<Mutex<Vec<Target>>>,
    limits: Limits,
}

impl Outputs {
    /// The directories of a policy, if it has any.
    pub(crate) fn of(
        link: &Link,
        policy: &Policy,
        outputs: Vec<(String, Target)>,
    ) -> Option<Outputs> {
        if outputs.is_empty() {
            return None;
        }
        let (paths, targets): (Vec<String>, Vec<Target>) = outputs.into_iter().unzip();
        let place = |path: &String| {
            let path = FilePath::new(path.as_bytes()).expect("a path of the policy is a path");
            WritablePlace { path, base: Some("/".into()), skip: Vec::new() }
        };
        let limit = |limit: Limit| policy.limits.value(limit).unwrap_or_else(|| limit.spec().min);
        let places = u64::try_from(paths.len()).unwrap_or(u64::MAX);
        let limits = Limits {
            entries: limit(Limit::Inodes).saturating_mul(places),
            bytes: (limit(Limit::Disk) << 20).saturating_mul(places),
        };
        let files = link.files("/", paths.iter().map(place).collect());
        Some(Outputs { files, paths, targets: Arc::new(Mutex::new(targets)), limits })
    }

    /// Copies all changes so far to the host. `None` if that takes too long.
    pub(crate) async fn deliver(&self, link: &Link, stops: &Stops) -> Option<Result<(), Error>> {
        let _copying = match stops.copying(link).await {
            Ok(copying) => copying,
            Err(error) => return Some(Err(error.into())),
        };
        timeout(MOST, self.copy()).await.ok()
    }

    async fn copy(&self) -> Result<(), Error> {
        let records: FileBytes = self.files.capture().await?;
        let (targets, limits) = (Arc::clone(&self.targets), self.limits);
        let wanted = Wanted::default();
        let is_unwanted = Arc::clone(&wanted.is_dropped);
        let work = spawn_blocking(move || {
            let mut targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            let mut records = WhileWanted { records: SyncIoBridge::new(records), is_unwanted };
            deliver(&mut targets, &mut records, limits)
        });
        let done = work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let undelivered = done.map_err(|source| QemuError::Deliver { source })?;
        if undelivered.count == 0 {
            return Ok(());
        }
        let name = |place: u32| {
            let place = usize::try_from(place).ok().and_then(|place| self.paths.get(place));
            place.map_or("", String::as_str)
        };
        let named = undelivered.examples.iter();
        let named =
            named.map(|it| format!("{}/{}: {}", name(it.place), it.path.escape_ascii(), it.why));
        let named = named.collect::<Vec<_>>().join("; ");
        Err(QemuError::Undelivered { count: undelivered.count, named }.into())
    }
}

/// Tells the thread of a copy when nothing waits for the copy any more.
#[derive(Default)]
struct Wanted {
    is_dropped: Arc<AtomicBool>,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::SeqCst);
    }
}

/// Records of a copy, until it is unwanted.
struct WhileWanted<R> {
    records: R,
    is_unwanted: Arc<AtomicBool>,
}

impl<R: Read> Read for WhileWanted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.is_unwanted.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.records.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_reads_no_further_once_its_caller_has_left() {
        let wanted = Wanted::default();
        let is_unwanted = Arc::clone(&wanted.is_dropped);
        let mut records = WhileWanted { records: io::repeat(7), is_unwanted };
        let mut buffer = [0; 2];
        records.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, [7, 7]);
        drop(wanted);
        let refused = records.read_exact(&mut buffer).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
