//! Kills all processes in a group.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::files;
use super::group::Directory;
use super::{CgroupError, Controller, Group, Version};

/// The most pidfds open at once: far below any limit of open files.
const BATCH: usize = 64;

/// How long one round waits for killed processes to disappear before the next round starts.
const ROUND: Duration = Duration::from_millis(10);

impl Group {
    /// Kills every process inside and returns once no process is left, or with an error at the
    /// deadline.
    ///
    /// On v2 one write kills all processes, also those being forked. On v1 this freezes the group,
    /// sends SIGKILL to each listed process, and thaws the group, until it is empty: a frozen
    /// process cannot fork, and does not die either.
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

    /// Stops every process inside until [`Group::thaw`], whatever signals it blocks or sends.
    ///
    /// Returns when the kernel has the order; a process in a system call stops a little later.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        let directory = self.directory(Controller::Kill)?;
        match directory.version {
            Version::V1 => set(&directory.path, "freezer.state", "FROZEN"),
            Version::V2 => set(&directory.path, "cgroup.freeze", "1"),
        }
    }

    /// Whether every process is stopped after [`Group::freeze`]. A group that is gone is.
    pub fn is_frozen(&self) -> Result<bool, CgroupError> {
        let directory = self.directory(Controller::Kill)?;
        let (file, wanted) = match directory.version {
            Version::V1 => ("freezer.state", "FROZEN"),
            Version::V2 => ("cgroup.events", "frozen 1"),
        };
        match std::fs::read_to_string(directory.path.join(file)) {
            Ok(text) => Ok(text.lines().any(|line| line == wanted)),
            Err(error) if files::is_gone(&error) => Ok(true),
            Err(source) => Err(CgroupError::Read { path: directory.path.join(file), source }),
        }
    }

    /// Continues the processes that [`Group::freeze`] stopped.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        let directory = self.directory(Controller::Kill)?;
        match directory.version {
            Version::V1 => thaw(directory),
            Version::V2 => set(&directory.path, "cgroup.freeze", "0"),
        }
    }

    fn kill_round(&self) -> Result<(), CgroupError> {
        let unified = |it: &&Directory| it.version == Version::V2 && it.has(Controller::Kill);
        let freezer = |it: &&Directory| it.version == Version::V1 && it.has(Controller::Kill);
        if let Some(directory) = self.directories.iter().find(unified) {
            set(&directory.path, "cgroup.kill", "1")?;
            // A process frozen by the v1 freezer does not die.
            if let Some(directory) = self.directories.iter().find(freezer) {
                thaw(directory)?;
            }
            // Kills processes that are in the v1 groups and never entered v2.
            return self.signal_listed();
        }
        let Some(directory) = self.directories.iter().find(freezer) else {
            return self.signal_listed();
        };
        set(&directory.path, "freezer.state", "FROZEN")?;
        let signalled = self.signal_listed();
        // Also after an error: a frozen process cannot die.
        thaw(directory)?;
        signalled
    }

    /// Kills the processes that the v1 groups list.
    fn signal_listed(&self) -> Result<(), CgroupError> {
        for directory in self.directories.iter().filter(|it| it.version == Version::V1) {
            for batch in directory.processes()?.chunks(BATCH) {
                let held: Vec<(i32, OwnedFd)> =
                    batch.iter().filter_map(|pid| Some((*pid, hold(*pid)?))).collect();
                // The kernel may have reused a pid before its pidfd was opened. An open pidfd pins
                // the process, so a second listing shows whether that process is inside.
                let inside = directory.processes()?;
                for (_, process) in held.iter().filter(|(pid, _)| inside.contains(pid)) {
                    // An error means that the process has ended; the number of processes left
                    // decides.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
            }
        }
        Ok(())
    }

    /// Waits until the group is empty, at most until `moment`.
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

/// Opens a pidfd. Never for this process: if a caller moves one of its threads into a v1 group,
/// that group lists the whole process.
fn hold(pid: i32) -> Option<OwnedFd> {
    if pid.cast_unsigned() == std::process::id() {
        return None;
    }
    match pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
        Ok(process) => Some(process),
        Err(Errno::SRCH) => None,
        // No free descriptor, or a thread whose process is ending: the next round tries again.
        Err(_) => None,
    }
}

/// Thaws a v1 group and every group below it: each of them may be frozen by itself.
fn thaw(directory: &Directory) -> Result<(), CgroupError> {
    for group in directory.groups()? {
        set(&group, "freezer.state", "THAWED")?;
    }
    Ok(())
}

/// Writes to a file of a group that may have been removed concurrently.
fn set(group: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    match files::write(&group.join(file), value) {
        Err(CgroupError::Write { source, .. }) if files::is_gone(&source) => Ok(()),
        other => other,
    }
}
