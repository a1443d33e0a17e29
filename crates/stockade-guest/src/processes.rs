//! The processes inside: signalling them, and reaping every one that ends.

use std::cell::Cell;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, getppid,
    kill_process_group, test_kill_process, wait, waitid,
};
use stockade_sys::{child_signals, signal_all_processes};
use stockade_wire::Status;

use crate::reactor::{Descriptor, Reactor};

/// Whom the guest's signals reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everybody else in the pid namespace, of which the guest is the first process.
    WholeNamespace,
    /// Everybody else in the sandbox, because no signal leaves it.
    Sandbox,
    /// Only the group of the program that was started: the guest runs outside any wall.
    OwnChildren,
}

impl Reach {
    pub(crate) fn of_this_process() -> Reach {
        match getpid() {
            Pid::INIT => Reach::WholeNamespace,
            _ => Reach::OwnChildren,
        }
    }

    /// The reach of a guest that has no pid namespace, or none where a signal would leave the
    /// sandbox: the launcher is outside, and must not be reached.
    pub(crate) fn confined() -> Option<Reach> {
        let launcher = getppid()?;
        (test_kill_process(launcher) == Err(Errno::PERM)).then_some(Reach::Sandbox)
    }

    /// Signals everybody in reach; `leader` is the program that was started.
    pub(crate) fn signal(self, leader: Pid, signal: Signal) {
        // Both fail only when nobody is left to signal.
        let _ = match self {
            Reach::WholeNamespace | Reach::Sandbox => signal_all_processes(signal),
            Reach::OwnChildren => kill_process_group(leader, signal).map_err(io::Error::from),
        };
    }
}

/// The program that runs and all it has started.
pub(crate) struct Processes {
    reach: Reach,
    signals: Descriptor,
    /// The program, until it is reaped: after that its id may be another's.
    leader: Cell<Option<Pid>>,
}

impl Processes {
    pub(crate) fn new(reach: Reach, reactor: &Reactor) -> io::Result<Processes> {
        let signals = Descriptor::new(child_signals()?, reactor)?;
        Ok(Processes { reach, signals, leader: Cell::new(None) })
    }

    /// From now on `leader` is the program that runs.
    pub(crate) fn lead(&self, leader: Pid) {
        self.leader.set(Some(leader));
    }

    /// Signals everybody in reach.
    pub(crate) fn signal_all(&self, signal: Signal) {
        if let Some(leader) = self.leader.get() {
            self.reach.signal(leader, signal);
        }
    }

    /// Kills everybody in reach.
    pub(crate) fn kill(&self) {
        self.signal_all(Signal::KILL);
    }

    /// Waits for the program to end, then ends and reaps everybody else.
    pub(crate) async fn end(&self) -> Status {
        let Some(leader) = self.leader.get() else { return Status::Signaled(0) };
        match self.end_of(leader).await {
            Ok(status) => status,
            // The kernel refuses to wait only for a child that is not ours, and this one is. Should
            // it do so, nothing is left running and the end says that we had to end it.
            Err(_) => {
                self.kill();
                self.leader.set(None);
                Status::Signaled(Signal::KILL.as_raw())
            }
        }
    }

    async fn end_of(&self, leader: Pid) -> io::Result<Status> {
        let status = loop {
            if has_ended(leader)? {
                // Before it is reaped: until then its id cannot be given to another group.
                self.kill();
            }
            match reap_until(leader)? {
                Some(status) => break status,
                None => self.child_ended().await?,
            }
        };
        self.leader.set(None);
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => self.child_ended().await?,
                Err(Errno::CHILD) => return Ok(status),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Returns when a child has ended since the last call.
    async fn child_ended(&self) -> io::Result<()> {
        // Several children may hide behind one signal; how many is asked of wait(2).
        const SIGNAL_BYTES: usize = 128;
        self.signals.read(&mut [0; SIGNAL_BYTES]).await.map(|_| ())
    }
}

/// Whether a child has ended; it stays unreaped.
fn has_ended(child: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(child), options)?.is_some())
}

/// Reaps whoever has ended, up to and with `leader`, and says how that one ended.
fn reap_until(leader: Pid) -> io::Result<Option<Status>> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == leader => return Ok(Some(status_of(status))),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn status_of(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, Some(signal)) => Status::Signaled(signal),
        // Stops are not asked for, so every status is one of the two above.
        (None, None) => Status::Signaled(0),
    }
}
