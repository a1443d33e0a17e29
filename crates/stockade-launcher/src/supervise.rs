//! The launcher after the clone: waits, ends everything inside, and cleans up.
//!
//! ```text
//!           the host is gone, or the timer expired    first process ended
//! watching ───────────────────────────▶ kill ─────────────────▶ reported ──▶ after ──▶ done
//!    └─── first process ended ──▶ reported ── the host is gone ────────────▲
//! ```
//! The host gets its result before the cleanup: the kernel needs longer to end a pid namespace and
//! remove cgroups than most programs run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus};

use crate::descendants;
use crate::message;
use crate::outside::write_once;
use crate::plan::{AfterStep, Family};
use crate::remove::remove_tree;
use crate::report::{Ending, Report};

/// How long to retry a cgroup that is busy after its last process has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the launcher supervises.
pub(crate) struct Sandbox {
    /// The socket to the host. When the host closes it or half-closes it, the sandbox must end;
    /// messages on it are for the first process inside.
    pub(crate) control: UnixStream,
    /// The pidfd of the first process inside.
    pub(crate) handle: OwnedFd,
    /// Expires when everything inside must end. The host sets it, because it may itself be stopped.
    pub(crate) timer: Option<OwnedFd>,
    /// What ends the other processes with the first.
    pub(crate) family: Family,
    pub(crate) after: Vec<AfterStep>,
}

/// Waits for the end and carries out the `after` steps. Returns the exit code.
pub(crate) fn supervise(mut sandbox: Sandbox) -> u8 {
    // Kills even after an error; killing a process that has ended does nothing.
    let _ = wait_for_end(&sandbox);
    kill(&sandbox);
    let ending = reap(&sandbox.handle);
    let all_ended = match sandbox.family {
        // The kernel has reaped all other processes before the first.
        Family::Namespaces { .. } => true,
        Family::Descendants(reach) => descendants::reap(reach, Instant::now() + PATIENCE),
    };
    if let Ok(ending) = ending {
        // Fails if the host is gone.
        let _ = message::send(&mut sandbox.control, &Report::Ended(ending), &[]);
    }
    // Removing the cgroups loses their counters, which the host reads to explain the end.
    let _ = wait_for_host(&sandbox.control);
    let done = sandbox
        .after
        .iter()
        .map(take_down)
        .fold(ending.is_ok() && all_ended, |all, one| all && one);
    u8::from(!done)
}

/// Returns when the host is gone, the first process has ended or the timer has expired.
fn wait_for_end(sandbox: &Sandbox) -> io::Result<()> {
    let mut watched = vec![
        PollFd::new(&sandbox.control, PollFlags::RDHUP),
        PollFd::new(&sandbox.handle, PollFlags::IN),
    ];
    watched.extend(sandbox.timer.iter().map(|timer| PollFd::new(timer, PollFlags::IN)));
    wait_for(&mut watched)
}

/// Returns when the host closes the socket. Reads and drops messages for the first process, so that
/// the host does not block on sending them.
fn wait_for_host(mut control: &UnixStream) -> io::Result<()> {
    io::copy(&mut control, &mut io::sink())?;
    Ok(())
}

fn wait_for(watched: &mut [PollFd<'_>]) -> io::Result<()> {
    loop {
        match poll(watched, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills the first process, and with it the pid namespace or every process in reach, and every
/// cgroup with a `cgroup.kill`.
fn kill(sandbox: &Sandbox) {
    // Fails if the process has ended.
    let _ = rustix::process::pidfd_send_signal(&sandbox.handle, Signal::KILL);
    if let Family::Descendants(reach) = sandbox.family {
        descendants::kill(reach);
    }
    for step in &sandbox.after {
        match step {
            // Fails if the cgroup was removed already.
            AfterStep::KillCgroup { file } => _ = write_once(file, "1"),
            AfterStep::ThawCgroups { directory } => {
                for group in groups_below(directory) {
                    let _ = write_once(&group.join("freezer.state"), "THAWED");
                }
            }
            AfterStep::RemoveCgroup { .. } | AfterStep::RemoveTree { .. } => {}
        }
    }
}

/// The cgroups directly below one.
fn groups_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_group = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_group).map(|entry| entry.path()).collect()
}

/// Ends a first process that has started nothing, and waits until it is gone.
pub(crate) fn end(handle: &OwnedFd) {
    // Both fail only if the process is gone.
    let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
    let _ = wait(handle);
}

fn reap(handle: &OwnedFd) -> io::Result<Ending> {
    let status = wait(handle)?;
    let usage = stockade_sys::children_usage()?;
    Ok(Ending {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        cpu_micros: u64::try_from(usage.cpu_time.as_micros()).unwrap_or(u64::MAX),
        largest_bytes: usage.largest_bytes,
    })
}

pub(crate) fn wait(handle: &OwnedFd) -> io::Result<WaitIdStatus> {
    loop {
        match rustix::process::waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Carries out one step. Returns whether it left nothing behind.
fn take_down(step: &AfterStep) -> bool {
    match step {
        AfterStep::KillCgroup { .. } | AfterStep::ThawCgroups { .. } => true,
        AfterStep::RemoveTree { directory } => remove_tree(directory).is_ok(),
        AfterStep::RemoveCgroup { directory } => remove(directory, Instant::now() + PATIENCE),
    }
}

/// Removes one cgroup directory, which may be busy for a moment after its last process ended. The
/// host may have left leaves of executions below it.
fn remove(directory: &Path, deadline: Instant) -> bool {
    let mut pause = Duration::from_micros(200);
    loop {
        match std::fs::remove_dir(directory) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() >= deadline => return false,
            Err(_) => {}
        }
        let leaves = groups_below(directory);
        let removed = leaves.iter().filter(|leaf| std::fs::remove_dir(leaf).is_ok()).count();
        if removed < leaves.len() || leaves.is_empty() {
            std::thread::sleep(pause);
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
