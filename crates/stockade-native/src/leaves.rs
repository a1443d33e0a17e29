//! The cgroup leaf of each execution: entering, counting, freezing and ending it.
//!
//! ```text
//! made ahead ──▶ sent to the guest, live ── its program ended ──▶ empty, or killed ──▶ ended ──▶ removed
//!      └── announced with the code before: an interpreter may wait in it ──▶ live, or ended
//! ```
//! A leaf is made while the program before it runs and removed while the program after it runs, so
//! that neither delays a program. A sandbox with one program makes one leaf; the launcher removes
//! the leaves that are left at the end.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use stockade_carrier::{CONFIRMED, ExecutionControl};
use stockade_cgroup::{Group, LeafParent};
use stockade_policy::Limit;
use stockade_provider::ExecutionUsage;

use crate::error::StartError;

/// How long to retry the removal of an empty leaf; the launcher removes what remains.
const REMOVED: Duration = Duration::from_millis(200);

/// The maximum number of files of one leaf: more than there are hierarchies.
const MOST_FILES: usize = 8;

/// The leaves of a sandbox.
pub(crate) struct Leaves {
    parent: LeafParent,
    /// The guest has the other end and receives the files of leaves on it. Nothing is read here.
    socket: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of leaves made so far.
    made: u64,
    ahead: VecDeque<Arc<Leaf>>,
    /// Where the guest may have started an interpreter for the next code.
    announced: Option<Arc<Leaf>>,
    live: BTreeMap<u64, Arc<Leaf>>,
    ended: Vec<Arc<Leaf>>,
    removed: Counts,
}

/// The counts that are lost with a leaf: v1 keeps them only there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) oom_kills: u64,
    pub(crate) pids_hit: u64,
}

/// The leaf of one execution.
pub(crate) struct Leaf {
    pub(crate) number: u64,
    group: Group,
    /// The files through which the program enters, until they are sent.
    files: Mutex<Vec<OwnedFd>>,
    /// The guest's control of the execution, once it is requested.
    pub(crate) guest: OnceLock<ExecutionControl>,
    saved: OnceLock<ExecutionUsage>,
}

impl Leaves {
    /// Leaves below the group of a sandbox. Also returns the guest's end of their socket.
    pub(crate) fn below(group: &Group) -> Result<(Leaves, OwnedFd), StartError> {
        // Each message is one leaf.
        let kind = SocketType::SEQPACKET;
        let (socket, guests_end) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(|errno| {
                StartError::prepare("make the socket for cgroup leaves")(errno.into())
            })?;
        let leaves = Leaves { parent: group.leaf_parent(), socket, state: Mutex::default() };
        Ok((leaves, guests_end))
    }

    /// Makes leaves until this many are ahead. Blocks.
    pub(crate) fn make_ahead(&self, wanted: usize) -> Result<(), StartError> {
        while self.lock().ahead.len() < wanted {
            let leaf = self.make()?;
            self.lock().ahead.push_back(leaf);
        }
        Ok(())
    }

    /// The leaf for a program: the announced one for `code` that an interpreter may wait for, and
    /// otherwise one that was made ahead, if any. An interpreter that waits for code is killed when
    /// another program starts, so what its start used must not count for that program.
    pub(crate) fn take(&self, is_code: bool) -> Option<Arc<Leaf>> {
        let mut state = self.lock();
        let announced = state.announced.take();
        if is_code && announced.is_some() {
            return announced;
        }
        state.ended.extend(announced);
        state.ahead.pop_front()
    }

    /// Sends the leaf of the next execution ahead, if one is made already; returns its number.
    pub(crate) fn announce(&self) -> Option<u64> {
        let leaf = self.lock().ahead.pop_front()?;
        if self.send(&leaf).is_err() {
            self.give_back(leaf);
            return None;
        }
        let number = leaf.number;
        let second = self.lock().announced.replace(leaf);
        self.lock().ended.extend(second);
        Some(number)
    }

    /// Makes a leaf. Blocks.
    pub(crate) fn make(&self) -> Result<Arc<Leaf>, StartError> {
        let number = {
            let mut state = self.lock();
            state.made += 1;
            state.made
        };
        let group = self.parent.create(number)?;
        let entry = group.entry()?;
        let unified = entry.unified.map(|unified| unified.procs);
        let files = Mutex::new(entry.tasks.into_iter().chain(unified).collect());
        let (guest, saved) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Leaf { number, group, files, guest, saved }))
    }

    /// Keeps an unused leaf for the next execution.
    pub(crate) fn give_back(&self, leaf: Arc<Leaf>) {
        let mut state = self.lock();
        state.live.remove(&leaf.number);
        state.ahead.push_front(leaf);
    }

    /// Sends the files of a leaf to the guest, right before the request that names it. Does not
    /// block.
    pub(crate) fn send(&self, leaf: &Leaf) -> Result<(), StartError> {
        let mut files = lock(&leaf.files);
        if files.is_empty() {
            return Ok(());
        }
        let descriptors: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&descriptors));
        let number = leaf.number.to_le_bytes();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(&number)], &mut beside, flags).map_err(|errno| {
            StartError::prepare("send a cgroup leaf to the guest")(errno.into())
        })?;
        drop(descriptors);
        files.clear();
        Ok(())
    }

    /// Records that an execution uses a leaf.
    pub(crate) fn live(&self, leaf: &Arc<Leaf>) {
        self.lock().live.insert(leaf.number, Arc::clone(leaf));
    }

    /// Records that the execution of a leaf has ended.
    pub(crate) fn ended(&self, leaf: &Leaf) {
        let mut state = self.lock();
        if let Some(leaf) = state.live.remove(&leaf.number) {
            state.ended.push(leaf);
        }
    }

    /// The leaves of running executions.
    pub(crate) fn running(&self) -> Vec<Arc<Leaf>> {
        self.lock().live.values().cloned().collect()
    }

    /// Saves the usage of all executions before their sandbox is killed. Blocks.
    pub(crate) fn keep(&self) {
        let state = self.lock();
        let leaves: Vec<_> = state.live.values().chain(&state.ended).cloned().collect();
        drop(state);
        for leaf in leaves {
            leaf.keep();
        }
    }

    /// The counts of the leaves that are removed already.
    pub(crate) fn removed(&self) -> Counts {
        self.lock().removed
    }

    /// Removes the leaves of ended executions, and makes the next one, or the next two if one is to
    /// be announced. Blocks.
    pub(crate) fn tidy(&self, announces: bool) {
        let wanted = if announces && self.lock().announced.is_none() { 2 } else { 1 };
        // An error is repeated, and returned, when a program needs the leaf.
        let _ = self.make_ahead(wanted);
        let ended = std::mem::take(&mut self.lock().ended);
        for leaf in ended {
            leaf.keep();
            let counts = leaf.counts();
            if leaf.group.remove_shared(Instant::now() + REMOVED).is_ok() {
                let mut state = self.lock();
                state.removed.oom_kills += counts.oom_kills;
                state.removed.pids_hit += counts.pids_hit;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Leaf {
    /// Whether no process is left in it; an error counts as not empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.group.has_processes().is_ok_and(|has| !has)
    }

    /// Kills everything in it, whatever it does to hide or to fork. Returns whether it is empty.
    /// Blocks.
    pub(crate) fn kill(&self) -> bool {
        self.group.kill_all(Instant::now() + CONFIRMED).is_ok()
    }

    /// Whether the guest has executed the program.
    pub(crate) fn has_started(&self) -> bool {
        self.guest.get().is_some_and(ExecutionControl::has_started)
    }

    /// Stops everything in it until [`Leaf::thaw`]. Only for a program that has started: the guest
    /// waits for a child that has not executed its program yet.
    pub(crate) fn freeze(&self) -> Result<(), StartError> {
        Ok(self.group.freeze()?)
    }

    /// Whether everything in it is stopped.
    pub(crate) fn is_frozen(&self) -> Result<bool, StartError> {
        Ok(self.group.is_frozen()?)
    }

    /// Continues everything in it.
    pub(crate) fn thaw(&self) -> Result<(), StartError> {
        Ok(self.group.thaw()?)
    }

    /// What the execution used so far, or in all. Blocks.
    pub(crate) fn usage(&self) -> ExecutionUsage {
        self.saved.get().cloned().unwrap_or_else(|| self.look())
    }

    fn keep(&self) {
        self.saved.get_or_init(|| self.look());
    }

    fn counts(&self) -> Counts {
        Counts {
            oom_kills: self.group.oom_kills().unwrap_or(0),
            pids_hit: self.group.pids_hit().unwrap_or(0),
        }
    }

    fn look(&self) -> ExecutionUsage {
        let Counts { oom_kills, pids_hit } = self.counts();
        ExecutionUsage {
            cpu_time: self.group.cpu_time().ok(),
            memory_peak_bytes: self.group.memory_peak().ok(),
            tasks_peak: self.group.pids_peak().ok(),
            oom_kills,
            limits_hit: (pids_hit > 0).then_some(Limit::Pids).into_iter().collect(),
            denials: Vec::new(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No critical section leaves the value inconsistent, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
