//! Records which programs start inside under a `command_allowlist`.
//!
//! ```text
//! execve inside ──▶ waits ──────────────────────────────────────▶ the kernel decides
//!                     └── notification ──▶ this thread: record ────┘
//! ```
//! This only observes. Every answer lets the call continue, and the root, Landlock and the mounts
//! decide: a program that changes a path after it was read only gets a wrong line in the report.
//! The answer follows the record, so that a report made after a program's end contains all its
//! attempts.
//!
//! The thread ends when no process is left inside. If the thread or the whole Stockade process ends
//! earlier, the kernel refuses every start inside.

mod refusal;
mod task;
mod walk;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use stockade_policy::Denial;
use stockade_sys::{Notification, continue_call, is_pending, next_notification};

use refusal::{Refused, refused};
use task::Task;
use walk::FileId;

/// The maximum number of recorded refusals.
const MOST_DENIALS: usize = 64;

/// The maximum number of inspected starts, so that code inside cannot keep a host CPU busy. Later
/// starts continue without inspection.
const MOST_LOOKS: usize = 4096;

/// The executables that the policy allows.
pub(crate) struct Listed {
    /// Paths inside, without symbolic links.
    pub(crate) executables: Vec<PathBuf>,
    /// The line of the policy that lists them.
    pub(crate) rule: String,
    pub(crate) hidden: Hidden,
}

/// Which programs the root omits because they are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Programs of the host.
    HostPrograms,
    Nothing,
}

/// The record of refused starts, each with the number of the cgroup leaf in which it was tried.
pub(crate) struct Programs {
    denials: Arc<Mutex<Denials>>,
}

impl Programs {
    /// Starts the thread. Until then every execve inside blocks.
    pub(crate) fn watch(listener: OwnedFd, listed: Listed) -> io::Result<Programs> {
        let denials = Arc::new(Mutex::new(Vec::new()));
        let mut watch = Watch {
            listener,
            listed,
            allowed: None,
            looks: 0,
            named: BTreeSet::new(),
            denials: denials.clone(),
        };
        std::thread::Builder::new().name("programs".to_owned()).spawn(move || watch.answer())?;
        Ok(Programs { denials })
    }

    /// The refusals so far, one per program.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        let mut found: Vec<Denial> = Vec::new();
        for (_, denial) in &*locked(&self.denials) {
            // Several executions may have tried the same program.
            if !found.contains(denial) {
                found.push(denial.clone());
            }
        }
        found
    }

    /// The refusals so far in the cgroup leaf of one execution.
    pub(crate) fn denials_of(&self, leaf: u64) -> Vec<Denial> {
        let denials = locked(&self.denials);
        let of_leaf = denials.iter().filter(|(number, _)| *number == Some(leaf));
        of_leaf.map(|(_, denial)| denial.clone()).collect()
    }
}

type Denials = Vec<(Option<u64>, Denial)>;

fn locked(denials: &Mutex<Denials>) -> MutexGuard<'_, Denials> {
    denials.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watch {
    listener: OwnedFd,
    listed: Listed,
    /// The files at the listed paths, set once a process inside could be inspected.
    allowed: Option<BTreeSet<FileId>>,
    looks: usize,
    /// The programs that are already recorded, with the leaves that tried to start them.
    named: BTreeSet<(Option<u64>, PathBuf)>,
    denials: Arc<Mutex<Denials>>,
}

impl Watch {
    /// Answers notifications until no process is left inside.
    fn answer(&mut self) {
        while self.is_asked() {
            let question = match next_notification(self.listener.as_fd()) {
                Ok(question) => question,
                // The starting thread is gone or was interrupted; the next poll shows which.
                Err(_) => continue,
            };
            if self.looks < MOST_LOOKS && self.named.len() < MOST_DENIALS {
                self.looks += 1;
                self.look(&question);
            }
            // Fails if the starting thread is gone, or was interrupted and repeats the call.
            let _ = continue_call(self.listener.as_fd(), &question);
        }
    }

    /// Waits for a notification; false when no more can come.
    fn is_asked(&self) -> bool {
        loop {
            let mut watched = [PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut watched, None) {
                Ok(_) => return watched[0].revents().contains(PollFlags::IN),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Records a start if it is refused. Skips a process that cannot be inspected: without root
    /// that is the guest, whose starts Stockade checked before.
    fn look(&mut self, question: &Notification) {
        let task = Task::of(question.thread);
        let Ok(tried) = task.tried(question) else { return };
        let Some(allowed) = self.allowed(&task) else { return };
        let Some(Refused { program, denial }) = refused(&task, tried, allowed, &self.listed) else {
            return;
        };
        // Checked before recording, because the pid may have been reused.
        let leaf = task.leaf();
        if is_pending(self.listener.as_fd(), question) && self.named.insert((leaf, program)) {
            locked(&self.denials).push((leaf, denial));
        }
    }

    /// All processes of a sandbox have one root, so the listed paths are resolved once.
    fn allowed(&mut self, task: &Task) -> Option<BTreeSet<FileId>> {
        if self.allowed.is_none() {
            let root = task.root().ok()?;
            let id = |path: &PathBuf| root.walk(path).file()?.id().ok();
            self.allowed = Some(self.listed.executables.iter().filter_map(id).collect());
        }
        self.allowed.clone()
    }
}
