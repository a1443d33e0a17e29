//! Shutdown: the servers outlive the machine just long enough to clean up after it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::MACHINE_VARIABLE;

/// How long the remaining processes may take to die.
const PATIENCE: Duration = Duration::from_secs(2);

/// The machine: its process, and its network namespace.
pub(super) struct Machine {
    handle: OwnedFd,
    network: u64,
}

impl Machine {
    /// Reads what the machine wrote to the environment.
    pub(super) fn from_environment() -> Result<Machine> {
        let text = std::env::var(MACHINE_VARIABLE)
            .context("reading which machine these servers belong to")?;
        let (process, network) =
            text.split_once(' ').context("splitting the machine into process and namespace")?;
        let process =
            Pid::from_raw(process.parse()?).context("reading the machine's process id")?;
        let handle = pidfd_open(process, PidfdFlags::empty())?;
        Ok(Machine { handle, network: network.parse()? })
    }

    /// Returns once the process has ended.
    pub(super) fn wait(&self) {
        let mut handles = [PollFd::new(&self.handle, PollFlags::IN)];
        while poll(&mut handles, None).is_err() {}
    }

    /// Kills the processes that are left in the machine's network namespace. Repeats after each
    /// round, because a process may have started others in the meantime.
    pub(super) fn kill_remaining_processes(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.left();
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            for process in left {
                // It may just have ended.
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn left(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let here = |id: &i32| {
            let network = fs::metadata(format!("/proc/{id}/ns/net"));
            network.is_ok_and(|network| network.ino() == self.network)
        };
        ids.filter(here).filter_map(Pid::from_raw).collect()
    }
}
