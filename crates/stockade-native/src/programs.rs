//! Which programs are tried inside, where the policy lists those that may be started.
//!
//! ```text
//! execve inside ──▶ waits ──────────────────────────────────────▶ the kernel decides
//!                     └── question ──▶ this thread: look, record ──┘
//! ```
//! This only observes. Every answer lets the call go on, and the root, Landlock and the mounts
//! decide, whatever this saw: a path that is changed after it was read wins nothing but a wrong
//! line in the report. The answer comes after the record, so that a report made when a program has
//! ended holds all it tried. The thread ends when nobody is left inside to ask. If it, or this
//! whole process, ends before, the kernel refuses every start inside.

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

/// The most refusals that are kept.
const MOST_DENIALS: usize = 64;

/// The most starts that are looked at, so that what runs inside cannot use up a processor outside
/// by trying forever. Those beyond go on unseen.
const MOST_LOOKS: usize = 4096;

/// What may be started.
pub(crate) struct Listed {
    /// Paths inside, without links.
    pub(crate) executables: Vec<PathBuf>,
    /// The line of the policy that lists them.
    pub(crate) rule: String,
    pub(crate) hidden: Hidden,
}

/// What the root leaves out that could have been listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Programs of the host.
    HostPrograms,
    Nothing,
}

/// The record of what was tried.
pub(crate) struct Programs {
    denials: Arc<Mutex<Vec<Denial>>>,
}

impl Programs {
    /// Starts to answer. Until then whoever starts a program inside waits.
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

    /// What was refused so far, each program once.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        locked(&self.denials).clone()
    }
}

fn locked(denials: &Mutex<Vec<Denial>>) -> MutexGuard<'_, Vec<Denial>> {
    denials.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watch {
    listener: OwnedFd,
    listed: Listed,
    /// What is behind the listed paths, once somebody inside could be looked at.
    allowed: Option<BTreeSet<FileId>>,
    looks: usize,
    /// What is in the record already.
    named: BTreeSet<PathBuf>,
    denials: Arc<Mutex<Vec<Denial>>>,
}

impl Watch {
    /// Answers until nobody is left to ask.
    fn answer(&mut self) {
        while self.is_asked() {
            let question = match next_notification(self.listener.as_fd()) {
                Ok(question) => question,
                // Who asked is gone, or waits again; whether anybody is left is seen next.
                Err(_) => continue,
            };
            if self.looks < MOST_LOOKS && self.named.len() < MOST_DENIALS {
                self.looks += 1;
                self.look(&question);
            }
            // An error says that who asked is gone, or was interrupted and asks again.
            let _ = continue_call(self.listener.as_fd(), &question);
        }
    }

    /// Waits for a question; false when no more can come.
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

    /// Records what was tried, if it is refused. Who cannot be looked at is passed over: the guest
    /// is closed to an ordinary user, and what it starts was judged before.
    fn look(&mut self, question: &Notification) {
        let task = Task::of(question.thread);
        let Ok(tried) = task.tried(question) else { return };
        let Some(allowed) = self.allowed(&task) else { return };
        let Some(Refused { program, denial }) = refused(&task, tried, allowed, &self.listed) else {
            return;
        };
        // Before it is recorded: the number may have been given to another in the meantime.
        if is_pending(self.listener.as_fd(), question) && self.named.insert(program) {
            locked(&self.denials).push(denial);
        }
    }

    /// All of the sandbox has one root, so what the paths lead to is found once.
    fn allowed(&mut self, task: &Task) -> Option<BTreeSet<FileId>> {
        if self.allowed.is_none() {
            let root = task.root().ok()?;
            let id = |path: &PathBuf| root.walk(path).file()?.id().ok();
            self.allowed = Some(self.listed.executables.iter().filter_map(id).collect());
        }
        self.allowed.clone()
    }
}
