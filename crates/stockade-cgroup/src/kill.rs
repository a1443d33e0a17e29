//! Ending everything in a group.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::files;
use super::group::Directory;
use super::{CgroupError, Controller, Group, Version};

/// How many processes are held by pidfd at once: far below any limit of open files.
const BATCH: usize = 64;

/// How long one round waits for the killed to be gone before the next round begins.
const ROUND: Duration = Duration::from_millis(10);

impl Group {
    /// Kills every process inside and returns once none is left, or with an error at the deadline.
    ///
    /// On v2 one write kills all of them, also those being forked. On v1 the group is frozen, each
    /// process killed, and the group thawed, until it is empty: a frozen process does not fork, and
    /// does not die either. Only processes that the group itself lists are ever signalled.
    pub fn kill_all(&self, deadline: Instant) -> Result<(), CgroupError> {
        loop {
            self.kill_round()?;
            let round_ends = deadline.min(Instant::now() + ROUND);
            if self.empty_by(round_ends)? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return self.still_populated();
            }
        }
    }

    fn kill_round(&self) -> Result<(), CgroupError> {
        let unified = |it: &&Directory| it.version == Version::V2 && it.has(Controller::Kill);
        let freezer = |it: &&Directory| it.version == Version::V1 && it.has(Controller::Kill);
        if let Some(directory) = self.directories.iter().find(unified) {
            set(directory, "cgroup.kill", "1")?;
            // What a v1 freezer holds does not die.
            if let Some(directory) = self.directories.iter().find(freezer) {
                set(directory, "freezer.state", "THAWED")?;
            }
            // Whoever is in the v1 groups and never entered v2.
            return self.signal_listed();
        }
        let Some(directory) = self.directories.iter().find(freezer) else {
            return self.signal_listed();
        };
        set(directory, "freezer.state", "FROZEN")?;
        let signalled = self.signal_listed();
        // In any case: what stays frozen cannot die.
        set(directory, "freezer.state", "THAWED")?;
        signalled
    }

    /// Kills the processes that the v1 groups list.
    fn signal_listed(&self) -> Result<(), CgroupError> {
        for directory in self.directories.iter().filter(|it| it.version == Version::V1) {
            for batch in directory.processes()?.chunks(BATCH) {
                let held: Vec<(i32, OwnedFd)> =
                    batch.iter().filter_map(|pid| Some((*pid, hold(*pid)?))).collect();
                // A number may have been reused before it was held. Held, it stays, so a second
                // look tells whether the process held is the one that is inside.
                let inside = directory.processes()?;
                for (_, process) in held.iter().filter(|(pid, _)| inside.contains(pid)) {
                    // An error says that it has ended; the count of those inside decides.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
            }
        }
        Ok(())
    }

    /// Whether the group is empty by a moment; returns as soon as it is.
    fn empty_by(&self, moment: Instant) -> Result<bool, CgroupError> {
        let mut pause = Duration::from_micros(100);
        loop {
            if self.is_empty()? {
                return Ok(true);
            }
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    fn still_populated(&self) -> Result<(), CgroupError> {
        for directory in &self.directories {
            if !directory.is_empty()? {
                let left = directory.processes()?.len();
                return Err(CgroupError::StillPopulated { path: directory.path.clone(), left });
            }
        }
        Ok(())
    }
}

/// Holds a process by its number. Never this one: a caller that moved one of its threads into a v1
/// group has its whole process listed there.
fn hold(pid: i32) -> Option<OwnedFd> {
    if pid.cast_unsigned() == std::process::id() {
        return None;
    }
    match pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
        Ok(process) => Some(process),
        Err(Errno::SRCH) => None,
        // Out of descriptors, or a thread whose process is ending: the next round tries again.
        Err(_) => None,
    }
}

/// Writes to a file of a group that may have been removed meanwhile.
fn set(directory: &Directory, file: &str, value: &str) -> Result<(), CgroupError> {
    match files::write(&directory.path.join(file), value) {
        Err(CgroupError::Write { source, .. }) if files::is_gone(&source) => Ok(()),
        other => other,
    }
}
